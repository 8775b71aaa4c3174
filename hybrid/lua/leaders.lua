-- What the top of a window says of players, and how far it can be trusted. (After places.lua.)
--
-- KEYS  1 state   2 top
-- ARGV  1 window   2 number of shards   then for each question: player, best and worst key of his score
--
-- Replies   unproved, or
--           the floor: key ("inf" when all are in) and player
--           seq: the number of events that the top includes
--           rows: how many players are better than the floor
--           then for each question: the player's key and rank from 0 (false if he is not in), and how many of the rows
--           have a better score, and this or a better score

local floor = redis.call('HGET', KEYS[1], 'f:' .. ARGV[1])
local reply = {'inf', ''}
if floor then
  local cut = string.find(floor, '\n', 1, true)
  reply = {string.sub(floor, 1, cut - 1), string.sub(floor, cut + 1)}
end

-- What was acknowledged while there was no top may still be missing in one that was just made.
if redis.call('HEXISTS', KEYS[1], 'r') == 1 then return {'unproved'} end
local seq = 0
for shard = 0, tonumber(ARGV[2]) - 1 do
  local applied = redis.call('HGET', KEYS[1], 'a:' .. shard)
  if not applied then return {'unproved'} end
  seq = seq + tonumber(string.match(applied, '^%d+'))
end
reply[3] = string.format('%.0f', seq)
-- While a refill is running there are rows behind the floor, too.
if floor then reply[4] = count_before(KEYS[2], reply[1], reply[2]) else reply[4] = redis.call('ZCARD', KEYS[2]) end

for i = 3, #ARGV, 3 do
  reply[#reply + 1] = redis.call('ZSCORE', KEYS[2], ARGV[i])
  reply[#reply + 1] = redis.call('ZRANK', KEYS[2], ARGV[i])
  reply[#reply + 1] = redis.call('ZCOUNT', KEYS[2], '-inf', '(' .. ARGV[i + 1])
  reply[#reply + 1] = redis.call('ZCOUNT', KEYS[2], '-inf', ARGV[i + 2])
end
return reply
