-- Remove one player from every window of one shard, as a logged event. It refuses before its first write, or does all.
--
-- KEYS  1 meta   2 log   3 nonces of this minute   4 ... the record of each window that the shard has
-- ARGV  1 deadline, ms of Redis' clock   2 board id   3 nonce   4 the event, packed   5 player   6 ... the windows' names
--
-- Replies   late, gone, done   as in write.lua
--           windows            the shard has other windows by now: look again
--           absent             no record of this player
--           ok, last, id       removed; the entry before, this entry
--
-- Log entry   as in write.lua, with "nan" for the new key.

local BOARD, NONCE, PLAYER = ARGV[2], ARGV[3], ARGV[5]

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
if now_ms > tonumber(ARGV[1]) then return {'late', string.format('%.0f', now_ms)} end
local meta = redis.call('HMGET', KEYS[1], 'id', 'seq', 'last')
if meta[1] ~= BOARD then return {'gone'} end
if redis.call('SISMEMBER', KEYS[3], NONCE) == 1 then return {'done'} end

local fields = redis.call('HGETALL', KEYS[1])
local windows, expired = 0, {}
for i = 1, #fields, 2 do
  if string.sub(fields[i], 1, 2) == 'v:' then
    windows = windows + 1
    if fields[i + 1] ~= '' and tonumber(fields[i + 1]) < now_ms then expired[#expired + 1] = fields[i] end
  end
end
if windows ~= #KEYS - 3 then return {'windows'} end
for j = 4, #KEYS do
  if redis.call('HEXISTS', KEYS[1], 'v:' .. ARGV[j + 2]) == 0 then return {'windows'} end
end

local seq = string.format('%.0f', tonumber(meta[2]) + 1)
local id = seq .. '-' .. NONCE
local entry = {'p', meta[3], 'e', ARGV[4]}
local found = {}
for j = 4, #KEYS do
  local old = redis.call('ZSCORE', KEYS[j], PLAYER)
  if old then
    found[#found + 1] = KEYS[j]
    local rows = {'P', PLAYER, 'K', 'nan', 'O', old}
    for i = 1, #rows, 2 do
      entry[#entry + 1] = rows[i] .. ARGV[j + 2]
      entry[#entry + 1] = cjson.encode({rows[i + 1]})
    end
  end
end
if #found == 0 then return {'absent'} end

-- From here on everything is written.
for _, key in ipairs(found) do redis.call('ZREM', key, PLAYER) end
redis.call('SADD', KEYS[3], NONCE)
redis.call('PEXPIREAT', KEYS[3], string.format('%.0f', now_ms + 600000))
redis.call('XADD', KEYS[2], id, unpack(entry))
redis.call('HSET', KEYS[1], 'seq', seq, 'last', id)
for _, field in ipairs(expired) do redis.call('HDEL', KEYS[1], field) end
return {'ok', meta[3], id}
