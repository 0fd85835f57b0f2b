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
  -- Kept beside the task too: whoever takes it from a server that died is asked then.
  redis.call('HSET', key, 'cancel', '1')
  redis.call('RPUSH', P .. 'cancels:' .. is[3], id)
  redis.call('PUBLISH', C .. 'server:' .. is[3], 'cancel')
end
return 'ok'
