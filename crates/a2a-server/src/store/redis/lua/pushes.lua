local entries = redis.call('HVALS', P .. 'push:' .. ARGV[4])
local bytes = 0
for _, entry in ipairs(entries) do
  bytes = bytes + #entry + 32
end
if bytes > allowance(ARGV[4]) then
  return too_large()
end
return entries
