local before, count, batch = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local done = 0
for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. 'settled', '-inf', '(' .. before, 'LIMIT', 0, batch)) do
  done = done + forget(id)
end
for _, owner in ipairs(redis.call('HKEYS', P .. 'bytes')) do
  local settled = P .. 'settled:owner:' .. owner
  local excess = math.min(redis.call('ZCARD', settled) - count, batch - done)
  if excess > 0 then
    for _, id in ipairs(redis.call('ZRANGE', settled, 0, excess - 1)) do
      done = done + forget(id)
    end
  end
end
return done
