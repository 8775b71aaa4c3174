-- Write one group of events to one shard. It refuses before its first write, or does everything.
--
-- KEYS  1 meta   2 log   3 nonces of this minute   4 5 6 tokens of yesterday, today, tomorrow
--       7 ...    the record of each window
-- ARGV  1 deadline, ms of Redis' clock   2 board id   3 nonce
--       4 number of events   5 the events, packed   6 until when today's tokens are kept, ms
--       7 "best": a key is written if it is less than the one there (numbers, never text)
--         "set":  all keys are written if each player still has the key that is expected
--       8 number of tokens t, then t tokens; a token that is known refuses the group
--       then for each window: its name, until when it is kept (ms, or ""), and its rows, either
--         "="   the rows of the window before
--         n, n players, n keys and, for "set", n expected keys ("nan" for none)
--
-- Replies   late, now_ms        the deadline has passed
--           gone                the board was deleted
--           done                this nonce was written before: the log has the entry
--           known, i ...        tokens known, counted from 1
--           moved               an expected key was not there: read again
--           ok, last, id, keys ...   written; the entry before, this entry, the keys before, a text a window
--
-- Log entry   p the entry before, e the events; for each window P<w> players, K<w> new keys (both left out where they
--             are those of the window before), O<w> old keys. Keys are joined by a blank, players by a line feed.

local STEP = 1000  -- rows handed to one call; unpack has its limits
local BOARD, NONCE, COUNT, MODE = ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[7]

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
if now_ms > tonumber(ARGV[1]) then return {'late', string.format('%.0f', now_ms)} end
local meta = redis.call('HMGET', KEYS[1], 'id', 'seq', 'last')
if meta[1] ~= BOARD then return {'gone'} end
if redis.call('SISMEMBER', KEYS[3], NONCE) == 1 then return {'done'} end

local tokens = tonumber(ARGV[8])
local known = {'known'}
for from = 1, tokens, STEP do
  local to = math.min(from + STEP - 1, tokens)
  for day = 4, 6 do
    local found = redis.call('SMISMEMBER', KEYS[day], unpack(ARGV, 8 + from, 8 + to))
    for i = 1, #found do
      if found[i] == 1 then known[#known + 1] = from + i - 1 end
    end
  end
end
if #known > 1 then return known end

-- The windows: names, rows, and what is there now.
local windows = {}
local at = 9 + tokens
while at <= #ARGV do
  local window = {name = ARGV[at], kept = ARGV[at + 1], record = KEYS[7 + #windows]}
  if ARGV[at + 2] == '=' then
    local before = windows[#windows]
    window.is_same, window.n = true, before.n
    window.players, window.keys, window.expected = before.players, before.keys, before.expected
    at = at + 3
  else
    local n = tonumber(ARGV[at + 2])
    local players, keys, expected = {}, {}, {}
    at = at + 2
    for i = 1, n do players[i] = ARGV[at + i]; keys[i] = ARGV[at + n + i] end
    at = at + 2 * n + 1
    if MODE == 'set' then
      for i = 1, n do expected[i] = ARGV[at + i - 1] end
      at = at + n
    end
    window.n, window.players, window.keys, window.expected = n, players, keys, expected
  end
  local old = {}
  for from = 1, window.n, STEP do
    local to = math.min(from + STEP - 1, window.n)
    local found = redis.call('ZMSCORE', window.record, unpack(window.players, from, to))
    for i = 1, to - from + 1 do old[from + i - 1] = found[i] or 'nan' end
  end
  window.old = old
  windows[#windows + 1] = window
end

if MODE == 'set' then
  for _, window in ipairs(windows) do
    for i = 1, window.n do
      local is, was = window.old[i], window.expected[i]
      if is ~= was and (is == 'nan' or was == 'nan' or tonumber(is) ~= tonumber(was)) then return {'moved'} end
    end
  end
end

-- From here on everything is written.
local seq = string.format('%.0f', tonumber(meta[2]) + COUNT)
local id = seq .. '-' .. NONCE
local entry = {'p', meta[3], 'e', ARGV[5]}
local reply = {'ok', meta[3], id}
for j, window in ipairs(windows) do
  for from = 1, window.n, STEP do
    local rows = {}
    for i = from, math.min(from + STEP - 1, window.n) do
      rows[#rows + 1] = window.keys[i]
      rows[#rows + 1] = window.players[i]
    end
    if MODE == 'best' then
      redis.call('ZADD', window.record, 'LT', unpack(rows))
    else
      redis.call('ZADD', window.record, unpack(rows))
    end
  end
  if window.n > 0 then
    if window.kept ~= '' then redis.call('PEXPIREAT', window.record, window.kept) end
    redis.call('HSETNX', KEYS[1], 'v:' .. window.name, window.kept)
  end
  if not window.is_same then
    entry[#entry + 1] = 'P' .. window.name
    entry[#entry + 1] = table.concat(window.players, '\n')
    entry[#entry + 1] = 'K' .. window.name
    entry[#entry + 1] = table.concat(window.keys, ' ')
  end
  local old = table.concat(window.old, ' ')
  entry[#entry + 1] = 'O' .. window.name
  entry[#entry + 1] = old
  reply[j + 3] = old
end
for from = 1, tokens, STEP do
  redis.call('SADD', KEYS[5], unpack(ARGV, 8 + from, 8 + math.min(from + STEP - 1, tokens)))
end
if tokens > 0 then redis.call('PEXPIREAT', KEYS[5], ARGV[6]) end
redis.call('SADD', KEYS[3], NONCE)
redis.call('PEXPIREAT', KEYS[3], string.format('%.0f', now_ms + 600000))
redis.call('XADD', KEYS[2], id, unpack(entry))
redis.call('HSET', KEYS[1], 'seq', seq, 'last', id)
return reply
