local before, count, batch = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local done = 0

-- Deletes a task, and removes it from `index` in any case: an entry without a task would come first forever.
local function drop(index, id)
  if holds(P .. 'task:' .. id, 'hash') then
    forget(id)
  end
  redis.call('ZREM', index, id)
  done = done + 1
end

for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. 'settled', '-inf', '(' .. before, 'LIMIT', 0, batch)) do
  drop(P .. 'settled', id)
end
for _, owner in ipairs(redis.call('HKEYS', P .. 'bytes')) do
  local settled = P .. 'settled:owner:' .. owner
  local excess = math.min(redis.call('ZCARD', settled) - count, batch - done)
  if excess > 0 then
    for _, id in ipairs(redis.call('ZRANGE', settled, 0, excess - 1)) do
      drop(settled, id)
    end
  end
end
return done
