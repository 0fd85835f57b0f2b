-- Returns for each task the size of its record, and the record with what its checksum covers while ARGV[4] bytes have room for
-- it. Returns nil in place of a task that has not finished, or that has more than a server stores.
local left, found = tonumber(ARGV[4]), {}

-- Returns a record; `false` is nil in a reply.
local function record(key, size)
  local wanted = { 'owner', 'revision', 'sum', 'base_revision', 'settled' }
  local fits = size <= left
  if fits then
    wanted[6] = 'base'
  end
  local is = redis.call('HMGET', key, unpack(wanted))
  for field = 1, 5 do
    if not is[field] or bounded_text(is[field]) ~= is[field] then
      return false
    end
  end
  if is[2] ~= is[4] then
    return false
  end
  if not fits then
    return { size, false, false, false, false }
  end
  left = left - size
  return { size, is[1], is[2], is[3], is[6] }
end

for i = 5, #ARGV do
  local key = P .. 'task:' .. ARGV[i]
  local size = redis.pcall('HSTRLEN', key, 'base')
  if type(size) == 'table' then
    -- Fails again, unless the key has another type.
    fields(key, 'owner')
    size = 0
  end
  local is_stored = size > 0 and (size <= 2 ^ 24 or size <= allowance(ARGV[i]))
  found[#found + 1] = is_stored and record(key, size)
end
return found
