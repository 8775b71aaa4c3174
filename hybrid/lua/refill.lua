-- End a refill of one window's top with rows that were read from the shards, or refuse. (After places.lua.)
--
-- KEYS  1 state   2 top   3 touched
-- ARGV  1 window   2 id under which the refill may end   3 rows that are kept   4 5 the bound up to which the rows are
--       complete: key ("inf" for all) and player   then the rows, player and key
--
-- Replies   0 refused: another refill began, or the top is no longer as far as the rows   1 done
--
-- A player whom a log entry touched since the refill began is in the top as he should be; the row read may be older.

local WINDOW, REFILL, KEEP = ARGV[1], ARGV[2], tonumber(ARGV[3])

if redis.call('HGET', KEYS[1], 'x:' .. WINDOW) ~= REFILL then return 0 end

for i = 6, #ARGV, 2 do
  if redis.call('SISMEMBER', KEYS[3], ARGV[i]) == 0 then redis.call('ZADD', KEYS[2], ARGV[i + 1], ARGV[i]) end
end
-- While the refill ran, rows of any place came in. Those that are not better than the floor must go: later changes to
-- them will not be sent, and a floor that moves out again would find them stale.
local key, player = ARGV[4], ARGV[5]
if redis.call('ZCARD', KEYS[2]) > KEEP then
  local first = redis.call('ZRANGE', KEYS[2], KEEP, KEEP, 'WITHSCORES')
  if is_better(first[2], first[1], key, player) then key, player = first[2], first[1] end
end
if key == 'inf' then
  redis.call('HDEL', KEYS[1], 'f:' .. WINDOW)
else
  redis.call('ZREMRANGEBYRANK', KEYS[2], count_before(KEYS[2], key, player), -1)
  redis.call('HSET', KEYS[1], 'f:' .. WINDOW, key .. '\n' .. player)
end
redis.call('HDEL', KEYS[1], 'x:' .. WINDOW)
redis.call('DEL', KEYS[3])
return 1
