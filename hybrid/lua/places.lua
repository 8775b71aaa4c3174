-- Places: pairs (order key, player) in one line, best first. Put before scripts that compare them.
--
-- Keys are compared as numbers, never as text. Players are compared byte by byte, because Lua's < follows the locale.

local function is_less(a, b)
  if a == b then return false end
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

local function is_better(key, player, other_key, other_player)
  local a, b = tonumber(key), tonumber(other_key)
  if a ~= b then return a < b end
  return is_less(player, other_player)
end

-- How many members of a ZSET stand before a place: ZCOUNT knows keys only, so among those of one key by bisection.
local function count_before(zset, key, player)
  local low = redis.call('ZCOUNT', zset, '-inf', '(' .. key)
  local high = redis.call('ZCOUNT', zset, '-inf', key)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_less(redis.call('ZRANGE', zset, middle, middle)[1], player) then low = middle + 1 else high = middle end
  end
  return low
end

