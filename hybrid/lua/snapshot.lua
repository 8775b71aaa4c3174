-- The best rows of windows of one shard, all at one entry of its log.
--
-- KEYS  1 meta   then the record of each window
-- ARGV  1 rows of each
--
-- Replies   id of the last entry, the names of all windows that the shard has, then for each window that was asked for
--           its rows as {player, key, ...}

local windows = {}
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(field, 1, 2) == 'v:' then windows[#windows + 1] = string.sub(field, 3) end
end
local reply = {redis.call('HGET', KEYS[1], 'last') or '', windows}
for i = 2, #KEYS do reply[i + 1] = redis.call('ZRANGE', KEYS[i], 0, tonumber(ARGV[1]) - 1, 'WITHSCORES') end
return reply
