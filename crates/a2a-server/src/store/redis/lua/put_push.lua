local id, config, entry = ARGV[4], ARGV[5], ARGV[6]
local owner = redis.call('HGET', P .. 'task:' .. id, 'owner')
if not owner then
  return 'gone'
end
local key = P .. 'push:' .. id
local known = redis.call('HGET', key, config)
-- A replaced configuration keeps its position.
local place = known and string.match(known, '^%d+') or add(P .. 'task:' .. id, 'pushes', 1)
local value = place .. ' ' .. entry
redis.call('HSET', key, config, value)
weigh(id, owner, #value - #(known or ''))
return 'ok'
