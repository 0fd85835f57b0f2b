-- Checks that the prefix is free or belongs to this version.
for key, kind in pairs({ total = 'string', bytes = 'hash', all = 'zset', settled = 'zset', servers = 'set', format = 'string' }) do
  local is = redis.call('TYPE', P .. key)['ok']
  if is ~= 'none' and is ~= kind then
    return 'foreign'
  end
end
redis.call('SET', P .. 'format', ARGV[4], 'NX')
return redis.call('GET', P .. 'format') == ARGV[4] and 'ok' or 'format'
