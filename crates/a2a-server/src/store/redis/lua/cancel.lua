local id = ARGV[4]
local key = P .. 'task:' .. id
local is = redis.call('HMGET', key, 'owner', 'settled', 'server')
if not is[1] then
  return 'gone'
end
if is[2] then
  return 'settled'
end
if is[3] then
  -- Stored with the task too: the server that recovers it from a dead one reads it.
  redis.call('HSET', key, 'cancel', '1')
  redis.call('RPUSH', P .. 'cancels:' .. is[3], id)
  redis.call('PUBLISH', C .. 'server:' .. is[3], 'cancel')
end
return 'ok'
