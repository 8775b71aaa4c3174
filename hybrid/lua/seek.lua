-- Where a place stands in one shard of a window, and the rows around it. (After places.lua.)
--
-- KEYS  1 record   2 meta
-- ARGV  1 order key   2 player   3 how many rows before the place   4 how many from the place on
--
-- Replies   number of players, seq, number of players before the place, then the rows as player, key, player, key ...

local BEFORE, AFTER = tonumber(ARGV[3]), tonumber(ARGV[4])

local ahead = count_before(KEYS[1], ARGV[1], ARGV[2])
local reply = {redis.call('ZCARD', KEYS[1]), redis.call('HGET', KEYS[2], 'seq') or '0', ahead}
local first, last = math.max(ahead - BEFORE, 0), ahead + AFTER - 1
if last >= first then
  local rows = redis.call('ZRANGE', KEYS[1], first, last, 'WITHSCORES')
  for i = 1, #rows do reply[#reply + 1] = rows[i] end
end
return reply
