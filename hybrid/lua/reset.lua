-- Make the top of a board again from snapshots of all shards, after its state was lost or can no longer follow a log.
--
-- KEYS  1 state   then the top of each window
-- ARGV  1 id of the reset   2 number of shards, then for each the entry up to which its rows were read
--       then for each window: name, the bound up to which its rows are complete (key, "inf" for all, and player), n, and
--       n times player and key
--
-- Replies   0 refused: another reset began   1 done
--
-- Between begin and end there is no state, so nothing is applied: what the shards wrote meanwhile is in their logs after
-- the snapshots, and the next writer helps with it.

local SHARDS = tonumber(ARGV[2])

if redis.call('HGET', KEYS[1], 'r') ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'r', ARGV[1])
for shard = 0, SHARDS - 1 do redis.call('HSET', KEYS[1], 'a:' .. shard, ARGV[3 + shard]) end
local at, window = 3 + SHARDS, 2
while at <= #ARGV do
  redis.call('DEL', KEYS[window])
  redis.call('HSET', KEYS[1], 'w:' .. ARGV[at], '')
  local n = tonumber(ARGV[at + 3])
  for i = at + 4, at + 3 + 2 * n, 2 do redis.call('ZADD', KEYS[window], ARGV[i + 1], ARGV[i]) end
  if ARGV[at + 1] ~= 'inf' then redis.call('HSET', KEYS[1], 'f:' .. ARGV[at], ARGV[at + 1] .. '\n' .. ARGV[at + 2]) end
  at, window = at + 4 + 2 * n, window + 1
end
return 1
