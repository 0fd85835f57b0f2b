-- Returns whether `bytes` more of an owner fit. Deletes the owner's oldest ended tasks if that makes room and the
-- caller allows it. Deletes none if others fill the total.
local owner, bytes, own, total = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local lacks = math.max(0, count(redis.call('HGET', P .. 'bytes', owner)) + bytes - math.min(own, total))
if count(redis.call('GET', P .. 'total')) + bytes - total > lacks then
  return 0
end
if lacks <= 0 then
  return 1
end
local oldest = {}
for _, id in ipairs(redis.call('ZRANGE', P .. 'settled:owner:' .. owner, 0, -1)) do
  if lacks <= 0 then
    break
  end
  if holds(P .. 'task:' .. id, 'hash') then
    oldest[#oldest + 1] = id
    lacks = lacks - count(redis.call('HGET', P .. 'task:' .. id, 'bytes'))
  end
end
if lacks > 0 then
  return 0
end
if ARGV[8] == '1' then
  for _, id in ipairs(oldest) do
    forget(id)
  end
end
return 1
