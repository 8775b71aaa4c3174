-- Add an entry to the stream of one partition of a trend. It refuses before its first write, or does everything.
--
-- KEYS  1 meta   2 stream   3 nonces of this minute   4 5 6 tokens of yesterday, today, tomorrow
-- ARGV  1 deadline, ms of Redis' clock   2 trend id   3 nonce
--       4 number of rows   5 number of events   6 the rows, packed   7 until when today's tokens are kept, ms
--       8 ... tokens; one that is known refuses the entry
--
-- Replies   late, now_ms     the deadline has passed
--           gone             the trend was deleted
--           done             this nonce was written before
--           known, i ...     tokens known, counted from 1
--           ok               written
--
-- Entry     r the rows. Its id is <rows so far>-<nonce>.

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
if now_ms > tonumber(ARGV[1]) then return {'late', string.format('%.0f', now_ms)} end
local meta = redis.call('HMGET', KEYS[1], 'id', 'seq')
if meta[1] ~= ARGV[2] then return {'gone'} end
if redis.call('SISMEMBER', KEYS[3], ARGV[3]) == 1 then return {'done'} end

local known = {'known'}
for i = 8, #ARGV do
  for day = 4, 6 do
    if redis.call('SISMEMBER', KEYS[day], ARGV[i]) == 1 then
      known[#known + 1] = i - 7
      break
    end
  end
end
if #known > 1 then return known end

-- From here on everything is written.
local seq = string.format('%.0f', tonumber(meta[2]) + ARGV[4])
local id = seq .. '-' .. ARGV[3]
for i = 8, #ARGV do redis.call('SADD', KEYS[5], ARGV[i]) end
if #ARGV > 7 then redis.call('PEXPIREAT', KEYS[5], ARGV[7]) end
redis.call('SADD', KEYS[3], ARGV[3])
redis.call('PEXPIREAT', KEYS[3], string.format('%.0f', now_ms + 600000))
redis.call('XADD', KEYS[2], id, 'r', ARGV[6])
redis.call('HSET', KEYS[1], 'seq', seq)
redis.call('HINCRBY', KEYS[1], 'events', ARGV[5])
return {'ok'}
