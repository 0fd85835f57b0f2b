local id = ARGV[4]
local key = P .. 'task:' .. id
local spare = allowance(id) - redis.call('HSTRLEN', key, 'base')
if spare < 0 then
  return too_large()
end
local is = redis.call('HMGET', key, 'base', 'base_revision', 'owner', 'revision', 'settled', 'sum')
if not is[1] then
  return {}
end
for field = 2, 6 do
  is[field] = is[field] or ''
  spare = spare - #is[field]
end
local log = redis.call('LRANGE', P .. 'log:' .. id, 0, -1)
for _, entry in ipairs(log) do
  -- An entry takes more memory than its bytes.
  spare = spare - #entry - 32
end
if spare < 0 then
  return too_large()
end
return { is[1], is[2], is[3], is[4], log, is[5], is[6] }
