local queue, place = ARGV[4], ARGV[5]
if redis.call('LREM', P .. 'queue:' .. queue, 0, place) > 0 then
  wake(queue)
end
redis.call('HDEL', P .. 'places:' .. me, place)
return 'ok'
