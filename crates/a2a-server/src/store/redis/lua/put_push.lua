local id, config, entry = ARGV[4], ARGV[5], ARGV[6]
if redis.call('EXISTS', P .. 'task:' .. id) == 0 then
  return 'gone'
end
local key = P .. 'push:' .. id
local known = redis.call('HGET', key, config)
-- A replaced configuration keeps its position.
local place = known and string.match(known, '^%d+') or redis.call('HINCRBY', P .. 'task:' .. id, 'pushes', 1)
local value = place .. ' ' .. entry
redis.call('HSET', key, config, value)
weigh(id, redis.call('HGET', P .. 'task:' .. id, 'owner'), #value - #(known or ''))
return 'ok'
