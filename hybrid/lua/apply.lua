-- Apply one log entry of one shard to the top of its board: all windows at once, or nothing. (After places.lua.)
--
-- KEYS  1 state   then for each window its top and its touched set
-- ARGV  1 shard   2 the entry before   3 the entry   4 rows that are kept   5 rows above that before it is trimmed
--       then for each window: name, the bound by which the rows were chosen (key and player; "inf" for all of them),
--       n, and n times player and new key ("nan" for removed)
--
-- Replies   unproved            there is no state: ranks are counted until it is made again
--           at, id              the top has this entry of the shard, not the one before
--           need, key, player   (once a window) the rows were chosen by a tighter bound than the top needs
--           ok, key, player     (once a window) applied; from here on rows worse than this may be left out
--
-- The floor of a window is a place: every player better than it is in the top. None stored means all are in. While a
-- refill is running (x) rows of any place are needed, and whom they touch is noted: the refill's own rows are older.

local STEP = 2000  -- values handed to one call; unpack has its limits
local SHARD, BEFORE, ENTRY, KEEP, SLACK = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])

local function floor_of(name)
  local floor = redis.call('HGET', KEYS[1], 'f:' .. name)
  if not floor then return 'inf', '' end
  local cut = string.find(floor, '\n', 1, true)
  return string.sub(floor, 1, cut - 1), string.sub(floor, cut + 1)
end

local applied = redis.call('HGET', KEYS[1], 'a:' .. SHARD)
if not applied then return {'unproved'} end
if applied ~= BEFORE then return {'at', applied} end

local windows, is_short = {}, false
local at = 6
while at <= #ARGV do
  local window = {name = ARGV[at], n = tonumber(ARGV[at + 3]), first = at + 4}
  window.top, window.touched = KEYS[2 + 2 * #windows], KEYS[3 + 2 * #windows]
  window.is_refilled = redis.call('HEXISTS', KEYS[1], 'x:' .. window.name) == 1
  if window.is_refilled then window.key, window.player = 'inf', '' else window.key, window.player = floor_of(window.name) end
  if is_better(ARGV[at + 1], ARGV[at + 2], window.key, window.player) then is_short = true end
  windows[#windows + 1] = window
  at = window.first + 2 * window.n
end
if is_short then
  local reply = {'need'}
  for _, window in ipairs(windows) do reply[#reply + 1] = window.key; reply[#reply + 1] = window.player end
  return reply
end

local reply = {'ok'}
for _, window in ipairs(windows) do
  local better, worse, touched = {}, {}, {}
  for i = window.first, window.first + 2 * window.n - 1, 2 do
    local player, key = ARGV[i], ARGV[i + 1]
    if key ~= 'nan' and is_better(key, player, window.key, window.player) then
      better[#better + 1] = key
      better[#better + 1] = player
    else
      worse[#worse + 1] = player
    end
    if window.is_refilled then touched[#touched + 1] = player end
  end
  for from = 1, #better, STEP do
    redis.call('ZADD', window.top, unpack(better, from, math.min(from + STEP - 1, #better)))
  end
  for from = 1, #worse, STEP do
    redis.call('ZREM', window.top, unpack(worse, from, math.min(from + STEP - 1, #worse)))
  end
  for from = 1, #touched, STEP do
    redis.call('SADD', window.touched, unpack(touched, from, math.min(from + STEP - 1, #touched)))
  end
  redis.call('HSETNX', KEYS[1], 'w:' .. window.name, '')
  if not window.is_refilled and redis.call('ZCARD', window.top) > KEEP + SLACK then
    local first = redis.call('ZRANGE', window.top, KEEP, KEEP, 'WITHSCORES')
    window.key, window.player = first[2], first[1]
    redis.call('ZREMRANGEBYRANK', window.top, KEEP, -1)
    redis.call('HSET', KEYS[1], 'f:' .. window.name, first[2] .. '\n' .. first[1])
  end
  reply[#reply + 1] = window.key
  reply[#reply + 1] = window.player
end
redis.call('HSET', KEYS[1], 'a:' .. SHARD, ENTRY)
return reply
