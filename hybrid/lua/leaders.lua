-- Where players stand in the top of a window.
--
-- KEYS  1 state   2 top
-- ARGV  1 window   then players
--
-- Replies   unproved, or
--           floor key ("inf" when all are in) and player, then for each player his key and rank from 0 (false if not in)

if redis.call('HEXISTS', KEYS[1], 'a:0') == 0 then return {'unproved'} end
local floor = redis.call('HGET', KEYS[1], 'f:' .. ARGV[1])
local reply = {'inf', ''}
if floor then
  local cut = string.find(floor, '\n', 1, true)
  reply = {string.sub(floor, 1, cut - 1), string.sub(floor, cut + 1)}
end
for i = 2, #ARGV do
  reply[#reply + 1] = redis.call('ZSCORE', KEYS[2], ARGV[i])
  reply[#reply + 1] = redis.call('ZRANK', KEYS[2], ARGV[i])
end
return reply
