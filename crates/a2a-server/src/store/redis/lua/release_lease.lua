redis.call('DEL', P .. 'lease:' .. me)
local places = redis.call('HGETALL', P .. 'places:' .. me)
for i = 1, #places, 2 do
  redis.call('LREM', P .. 'queue:' .. places[i + 1], 0, places[i])
  wake(places[i + 1])
end
redis.call('DEL', P .. 'places:' .. me)
-- If tasks remain, another server finds them by this server's name.
if redis.call('EXISTS', P .. 'running:' .. me) == 0 then
  redis.call('SREM', P .. 'servers', me)
  redis.call('DEL', P .. 'claims:' .. me, P .. 'cancels:' .. me)
end
return 'ok'
