-- Returns a page of `index`, the last changed first: the total, whether another page follows, and the rows. Filters by
-- owner, state and since where they are given.
local index, size, score, last = P .. ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7]
local owner, state, since = ARGV[8], ARGV[9], ARGV[10]
local asks = owner ~= '' or state ~= '' or since ~= ''

local function takes(id)
  local is = redis.call('HMGET', P .. 'task:' .. id, 'owner', 'state', 'since')
  return is[1] and (owner == '' or is[1] == owner) and (state == '' or is[2] == state)
    and (since == '' or (is[3] ~= '' and tonumber(is[3]) >= tonumber(since)))
end

-- Compares bytes, as Redis does; `<` of Lua uses the locale.
local function below(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = string.byte(one, i), string.byte(other, i)
    if a ~= b then
      return a < b
    end
  end
  return #one < #other
end

local function past(id, at)
  if score == '' then
    return true
  end
  local a, b = tonumber(at), tonumber(score)
  return a < b or (a == b and below(id, last))
end

local total, ids, more = 0, {}, 0
-- A filter has to see all tasks to count them.
local max = (asks or score == '') and '+inf' or score
if not asks then
  total = redis.call('ZCARD', index)
end
local offset, step = 0, 256
while more == 0 or asks do
  local found = redis.call('ZREVRANGEBYSCORE', index, max, '-inf', 'WITHSCORES', 'LIMIT', offset, step)
  for i = 1, #found, 2 do
    local id, at = found[i], found[i + 1]
    if not asks or takes(id) then
      if asks then
        total = total + 1
      end
      if #ids == size then
        more = (more == 1 or past(id, at)) and 1 or 0
      elseif past(id, at) then
        ids[#ids + 1] = { id, at }
      end
    end
  end
  if #found < 2 * step then
    break
  end
  offset = offset + step
end
for i, task in ipairs(ids) do
  ids[i] = listed(task[1], task[2])
end
return { total, more, ids }
