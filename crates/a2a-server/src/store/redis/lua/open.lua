-- Checks that the prefix is free or belongs to this version. Returns the name of a key of another program after `foreign`.
local kinds = { total = 'string', bytes = 'hash', all = 'zset', settled = 'zset', servers = 'set', format = 'string' }
for _, state in ipairs({ 'submitted', 'working', 'input-required', 'auth-required', 'completed', 'failed', 'canceled', 'rejected' }) do
  kinds['state:' .. state] = 'zset'
end
for key, kind in pairs(kinds) do
  if not holds(P .. key, kind) then
    return 'foreign ' .. key
  end
end
redis.call('SET', P .. 'format', ARGV[4], 'NX')
return redis.call('GET', P .. 'format') == ARGV[4] and 'ok' or 'format'
