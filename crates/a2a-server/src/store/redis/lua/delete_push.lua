local id, config = ARGV[4], ARGV[5]
local key = P .. 'push:' .. id
local known = redis.call('HGET', key, config)
if not known then
  return 0
end
redis.call('HDEL', key, config)
weigh(id, redis.call('HGET', P .. 'task:' .. id, 'owner'), -#known)
return 1
