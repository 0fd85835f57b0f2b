local queue, place = ARGV[4], ARGV[5]
if redis.call('LREM', P .. 'queue:' .. queue, 1, place) == 1 then
  wake(queue)
end
redis.call('HDEL', P .. 'places:' .. me, place)
return 'ok'
