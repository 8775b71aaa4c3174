-- Sample one window of one shard at exact ranks, and publish what was found beside the record, in one step.
--
-- KEYS  1 meta   2 record   3 where it is published
-- ARGV  1 board id   2 window   3 parts: a gap has at most this part of all players   4 and at most this part of the rank
--       5 6 another part of the rank for players with a key below this one: leaders, whom the top knows exactly
--       then keys below which players are counted exactly: the ends of scores that many share
--
-- Replies   gone   the board was deleted, or has no such window
--           or what was published, in lines:
--           id of the last log entry, time in ms, number of players
--           ranks (from 0) of the samples, each as its distance from the one before
--           keys of the samples
--           keys below which was counted
--           how many players are below each
--           players of the samples, a line each
--
-- Sampling and publishing are one step, so what stands there is never older than what stood there before, whoever
-- sampled, however long ago he was told to.

local GAP, SLOPE, STEEP = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local meta = redis.call('HMGET', KEYS[1], 'id', 'last', 'v:' .. ARGV[2])
if meta[1] ~= ARGV[1] or not meta[3] then return {'gone'} end

local players = redis.call('ZCARD', KEYS[2])
local gaps, keys, names = {}, {}, {}
local leaders = redis.call('ZCOUNT', KEYS[2], '-inf', '(' .. ARGV[6])
local rank, before, exact = 0, 0, 0
while rank < players do
  local row = redis.call('ZRANGE', KEYS[2], rank, rank, 'WITHSCORES')
  local i = #keys + 1
  gaps[i], keys[i], names[i] = rank - before, row[2], row[1]
  before = rank
  if rank == players - 1 then break end
  exact = exact + math.max(1, math.min(players / GAP, rank / (rank < leaders and STEEP or SLOPE)))
  rank = math.min(math.floor(exact), players - 1)
end

local counts = {}
for i = 7, #ARGV do counts[#counts + 1] = redis.call('ZCOUNT', KEYS[2], '-inf', '(' .. ARGV[i]) end

local time = redis.call('TIME')
local now_ms = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local text = table.concat({
  meta[2] .. ' ' .. now_ms .. ' ' .. players,
  table.concat(gaps, ' '), table.concat(keys, ' '), table.concat(ARGV, ' ', 7), table.concat(counts, ' '),
  table.concat(names, '\n'),
}, '\n')
redis.call('SET', KEYS[3], text)
if meta[3] ~= '' then redis.call('PEXPIREAT', KEYS[3], meta[3]) end
return text
