-- Keep what was folded: panes and the one position that says which entries they include, together or not at all.
--
-- KEYS  1 meta   2 position   3 stream, or the meta key again where the entries are somebody else's   4 ... panes
-- ARGV  1 trend id   2 the position that is expected   3 the new one   4 what else is kept with it
--       5 ...    for each pane two: for how long it is kept (ms), and the pane
--
-- Replies   gone     the trend was deleted
--           moved    another position is there: somebody else has folded since
--           lost     the stream no longer has the entry up to which was folded: a failover has lost it
--           ok

if redis.call('HGET', KEYS[1], 'id') ~= ARGV[1] then return {'gone'} end
if redis.call('HGET', KEYS[2], 'at') ~= ARGV[2] then return {'moved'} end
if KEYS[3] ~= KEYS[1] then
  if #redis.call('XRANGE', KEYS[3], ARGV[3], ARGV[3]) == 0 then return {'lost'} end
  redis.call('XTRIM', KEYS[3], 'MINID', ARGV[3])
end
redis.call('HSET', KEYS[2], 'at', ARGV[3], 'kept', ARGV[4])
for i = 4, #KEYS do redis.call('SET', KEYS[i], ARGV[2 * i - 2], 'PX', ARGV[2 * i - 3]) end
return {'ok'}
