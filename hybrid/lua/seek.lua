-- Where a place (order key, player) stands in one shard of a window, and the rows around it.
--
-- KEYS  1 record   2 meta
-- ARGV  1 order key   2 player   3 how many rows before the place   4 how many from the place on
--
-- Replies   number of players, seq, number of players before the place, then the rows as player, key, player, key ...
--
-- The tie chain ends with the player's bytes, over all shards, and ZCOUNT knows keys only: so inside the players of one
-- key the place is found by bisection. Bytes are compared here one by one, because Lua's < follows the locale.

local KEY, PLAYER, BEFORE, AFTER = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

local function is_less(a, b)
  if a == b then return false end
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

local low = redis.call('ZCOUNT', KEYS[1], '-inf', '(' .. KEY)
local high = redis.call('ZCOUNT', KEYS[1], '-inf', KEY)
while low < high do
  local middle = math.floor((low + high) / 2)
  local found = redis.call('ZRANGE', KEYS[1], middle, middle)[1]
  if is_less(found, PLAYER) then low = middle + 1 else high = middle end
end

local reply = {redis.call('ZCARD', KEYS[1]), redis.call('HGET', KEYS[2], 'seq') or '0', low}
local first, last = math.max(low - BEFORE, 0), low + AFTER - 1
if last >= first then
  local rows = redis.call('ZRANGE', KEYS[1], first, last, 'WITHSCORES')
  for i = 1, #rows do reply[#reply + 1] = rows[i] end
end
return reply
