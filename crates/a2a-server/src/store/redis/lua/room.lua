-- Whether so many bytes more of an owner fit; forgets the owner's oldest settled tasks where they then do.
local owner, bytes, own, total = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local function kept(value)
  return tonumber(value or 0) or 0
end
local lacks = math.max(
  kept(redis.call('HGET', P .. 'bytes', owner)) + bytes - own,
  kept(redis.call('GET', P .. 'total')) + bytes - total
)
if lacks <= 0 then
  return 1
end
local oldest = {}
for _, id in ipairs(redis.call('ZRANGE', P .. 'settled:owner:' .. owner, 0, -1)) do
  if lacks <= 0 then
    break
  end
  oldest[#oldest + 1] = id
  lacks = lacks - kept(redis.call('HGET', P .. 'task:' .. id, 'bytes'))
end
if lacks > 0 then
  return 0
end
for _, id in ipairs(oldest) do
  forget(id)
end
return 1
