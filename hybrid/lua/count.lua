-- How many players of one shard of a window stand before places, and have better or other scores. (After places.lua.)
--
-- KEYS  1 record   2 meta
-- ARGV  for each question: order key and player of a place, best and worst key of its score
--
-- Replies   number of players, seq, then for each question
--           players before the place, players with a better score, players with this or a better score

local reply = {redis.call('ZCARD', KEYS[1]), redis.call('HGET', KEYS[2], 'seq') or '0'}
for i = 1, #ARGV, 4 do
  reply[#reply + 1] = count_before(KEYS[1], ARGV[i], ARGV[i + 1])
  reply[#reply + 1] = redis.call('ZCOUNT', KEYS[1], '-inf', '(' .. ARGV[i + 2])
  reply[#reply + 1] = redis.call('ZCOUNT', KEYS[1], '-inf', ARGV[i + 3])
end
return reply
