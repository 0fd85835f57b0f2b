local id, config = ARGV[4], ARGV[5]
local key = P .. 'push:' .. id
local owner = redis.call('HGET', P .. 'task:' .. id, 'owner')
local known = redis.call('HGET', key, config)
if not known then
  return 0
end
redis.call('HDEL', key, config)
if owner then
  weigh(id, owner, -#known)
end
return 1
