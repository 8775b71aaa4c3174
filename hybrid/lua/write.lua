-- Write one group of events to one shard. It refuses before its first write, or does everything.
--
-- KEYS  1 meta   2 log   3 nonces of this minute   4 5 6 tokens of yesterday, today, tomorrow
--       7 ...    the record of each window
-- ARGV  1 deadline, ms of Redis' clock   2 board id   3 nonce
--       4 number of events   5 the events, packed   6 until when today's tokens are kept, ms
--       7 the tokens, 16 bytes each, joined; one that is known refuses the group
--       8 "best": a key is written if it is less than the one there (numbers, never text); or
--         the last entry when keys were read: all are written if each player still has the key that is expected
--       then for each window five: its name, until when it is kept (ms, or ""), its players ("=" if the rows are those
--         of the window before), their keys as texts, and the expected ones ("nan" for none); these three are JSON
--
-- Replies   late, now_ms        the deadline has passed
--           gone                the board was deleted
--           done                this nonce was written before: the log has the entry
--           known, i ...        tokens known, counted from 1
--           moved               an expected key was not there: read again
--           ok, last, id, ...   written: the entry before, this entry and, for "best", the keys that were there (JSON)
--
-- Log entry   p the entry before, e the events; for each window P<w> players, K<w> new keys (both left out where they
--             are those of the window before), O<w> old keys: see log.py.
--
-- Rows come as JSON because cjson splits them as fast as Redis does its arguments, and Python joins them much faster.

local STEP = 1000  -- rows handed to one call; unpack has its limits
local TOKEN = 16
local BOARD, NONCE, COUNT, MODE = ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[8]

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
if now_ms > tonumber(ARGV[1]) then return {'late', string.format('%.0f', now_ms)} end
local meta = redis.call('HMGET', KEYS[1], 'id', 'seq', 'last')
if meta[1] ~= BOARD then return {'gone'} end
if redis.call('SISMEMBER', KEYS[3], NONCE) == 1 then return {'done'} end

local tokens, joined, sub = {}, ARGV[7], string.sub
for i = 1, #joined / TOKEN do tokens[i] = sub(joined, TOKEN * (i - 1) + 1, TOKEN * i) end
local known = {'known'}
for day = 4, 6 do
  if #tokens > 0 and redis.call('EXISTS', KEYS[day]) == 1 then
    for from = 1, #tokens, STEP do
      local found = redis.call('SMISMEMBER', KEYS[day], unpack(tokens, from, math.min(from + STEP - 1, #tokens)))
      for i = 1, #found do
        if found[i] == 1 then known[#known + 1] = from + i - 1 end
      end
    end
  end
end
if #known > 1 then return known end

-- The windows: names, rows, and what is there now.
local windows = {}
local is_unmoved = MODE == meta[3]  -- nothing was written since the expected keys were read
for j = 1, #KEYS - 6 do
  local at = 4 + 5 * j
  local window = {name = ARGV[at], kept = ARGV[at + 1], record = KEYS[6 + j]}
  window.is_same = ARGV[at + 2] == '='
  if window.is_same then
    window.players, window.keys = windows[j - 1].players, windows[j - 1].keys
  else
    window.players, window.keys = cjson.decode(ARGV[at + 2]), cjson.decode(ARGV[at + 3])
  end
  window.old = ARGV[at + 4]
  if #window.players > 0 and not is_unmoved then
    local old = redis.call('ZMSCORE', window.record, unpack(window.players))
    if MODE == 'best' then
      for i = 1, #old do old[i] = old[i] or '"nan"' end
      window.old = '[' .. table.concat(old, ',') .. ']'
    else
      for i, was in ipairs(cjson.decode(window.old)) do
        if (old[i] and tonumber(old[i]) or 'nan') ~= was then return {'moved'} end
      end
    end
  end
  windows[j] = window
end

-- From here on everything is written.
local seq = string.format('%.0f', tonumber(meta[2]) + COUNT)
local id = seq .. '-' .. NONCE
local entry = {'p', meta[3], 'e', ARGV[5]}
local reply = {'ok', meta[3], id}
for j, window in ipairs(windows) do
  local players, keys = window.players, window.keys
  for from = 1, #players, STEP do
    local rows, n = {}, 0
    for i = from, math.min(from + STEP - 1, #players) do
      rows[n + 1], rows[n + 2] = keys[i], players[i]
      n = n + 2
    end
    if MODE == 'best' then
      redis.call('ZADD', window.record, 'LT', unpack(rows))
    else
      redis.call('ZADD', window.record, unpack(rows))
    end
  end
  if #players > 0 then
    if window.kept ~= '' then redis.call('PEXPIREAT', window.record, window.kept) end
    redis.call('HSETNX', KEYS[1], 'v:' .. window.name, window.kept)
  end
  local at = 4 + 5 * j
  local fields = {'P', ARGV[at + 2], 'K', ARGV[at + 3], 'O', window.old}
  for i = window.is_same and 5 or 1, 6, 2 do
    entry[#entry + 1] = fields[i] .. window.name
    entry[#entry + 1] = fields[i + 1]
  end
  if MODE == 'best' then reply[j + 3] = window.old end
end
for from = 1, #tokens, STEP do
  redis.call('SADD', KEYS[5], unpack(tokens, from, math.min(from + STEP - 1, #tokens)))
end
if #tokens > 0 then redis.call('PEXPIREAT', KEYS[5], ARGV[6]) end
redis.call('SADD', KEYS[3], NONCE)
redis.call('PEXPIREAT', KEYS[3], string.format('%.0f', now_ms + 600000))
redis.call('XADD', KEYS[2], id, unpack(entry))
redis.call('HSET', KEYS[1], 'seq', seq, 'last', id)
return reply
