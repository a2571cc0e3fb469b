-- Spending of budgets inside Redis, which runs a script atomically: the twin of policy/spending.py.
-- A test sends the same requests to both and compares their answers and ledgers.
--
-- KEYS[1]     {headgate}:epoch         "<id>:<born>": set once. If it is missing or different,
--                                      Redis has lost its counts.
-- KEYS[2..]   {headgate}:budget:<key>  a ledger, as JSON: one for the application, and one for the
--                                      connection where a limit is per connection. It expires when
--                                      its longest window is long over.
--   All in one hash slot, by {headgate}: a script in a cluster touches one slot.
--
-- ARGV[1]     the operation: begin, take, charge, release, observe, refused, read
-- ARGV[2]     the epoch that the caller expects; for begin, the one to set if there is none
-- ARGV[3]     milliseconds since 1970; normally empty, for Redis's own clock
-- ARGV[4]     the budget, as JSON
-- ARGV[5]     the operation's own arguments, as JSON
--
-- Returns JSON: {"lost": true} if the epoch is not the caller's; {"short": [...]} if the database has
-- to allow more first (policy/headroom.py); else the operation's result.

local ROLLING_PARTS, REMEMBERED = 60, 4
local PRESENT_TELLS, SURPRISE, BURST_SHARE, LIVE_WAIT_MS = 0.9, 8, 0.04, 15000
local SLOT_LOOK_MS, HOUR_MS = 500, 3600000
local CLOSED_MS_MAX, CLOSED_ROLLING_MS = 25 * HOUR_MS, 60000
local KEPT_MS_MIN = 26 * HOUR_MS

local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min

local function clock()
  if ARGV[3] ~= '' then return tonumber(ARGV[3]) end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + floor(tonumber(time[2]) / 1000)
end

local now = clock()
local epoch = redis.call('GET', KEYS[1])

if ARGV[1] == 'begin' then
  if not epoch then
    local args = cjson.decode(ARGV[5])
    -- Before the first epoch nothing was counted; before any other, something may have been.
    epoch = ARGV[2] .. ':' .. string.format('%.0f', args.first and 0 or now)
    redis.call('SET', KEYS[1], epoch)
  end
  return cjson.encode({epoch = epoch})
end
if epoch ~= ARGV[2] then return cjson.encode({lost = true}) end

local born = tonumber(string.match(epoch, ':(%d+)$'))
local budget = cjson.decode(ARGV[4])
local args = cjson.decode(ARGV[5])

-- ---- ledgers -----------------------------------------------------------------------------------

local ledgers = {}
local kept_ms = max(2 * budget.longest, KEPT_MS_MIN)

local function stretch(limit)
  return limit.rolling and ceil(limit.length / ROLLING_PARTS) or limit.length
end

local function oldest_counted(limit, place)
  return place - ceil((limit.length + budget.guard) / stretch(limit))
end

local function restore(ledger, seen, found)
  -- A replica that took over may be behind, and a key may have been evicted: the caller sends the
  -- counts that it has last seen.
  for _, limit in ipairs(budget.limits) do
    local oldest = floor((now - budget.guard) / stretch(limit))
    if limit.rolling then oldest = oldest_counted(limit, oldest) end
    for place, used in pairs(seen[limit.name] or {}) do
      if tonumber(place) >= oldest then
        local buckets = ledger.windows[limit.name] or {}
        ledger.windows[limit.name] = buckets
        local bucket = buckets[place] or {}
        buckets[place] = bucket
        bucket.used = max(bucket.used or 0, used)
      end
      -- A ledger that was counted in so long ago has expired; a newer one was evicted.
      local expires = tonumber(place) * stretch(limit) + kept_ms
      if not found and now < expires then ledger.born = max(ledger.born or 0, now) end
    end
  end
end

for index = 2, #KEYS do
  local text = redis.call('GET', KEYS[index])
  local ledger = text and cjson.decode(text) or {born = born}
  ledger.windows = ledger.windows or {}
  ledger.slots = ledger.slots or {}
  -- One that is begun has the id that the caller has made for it.
  ledger.id = ledger.id or args.fresh
  ledger.refusals = ledger.refusals or {}
  restore(ledger, args.seen and args.seen[index - 1] or {}, text)
  ledgers[index - 1] = ledger
end

-- What the database allows: policy/headroom.py, `apply`.
for _, given in ipairs(args.allowed or {}) do
  local ledger = ledgers[given.ledger]
  if ledger.id == given.id then
    local buckets = ledger.windows[given.limit] or {}
    ledger.windows[given.limit] = buckets
    local key = tostring(given.place)
    local bucket = buckets[key] or {}
    buckets[key] = bucket
    bucket.used = max(bucket.used or 0, given.before)
    bucket.headroom = max(bucket.headroom or 0, given.amount)
  end
end

local function keep()
  for index, ledger in ipairs(ledgers) do
    redis.call('SET', KEYS[index + 1], cjson.encode(ledger), 'PX', kept_ms)
  end
end

local function counting(kind)
  local limits = {}
  for _, limit in ipairs(budget.limits) do
    if limit.only == '' or limit.only == kind then limits[#limits + 1] = limit end
  end
  return limits
end

local function shortest(limits)
  local found = nil
  for _, limit in ipairs(limits) do
    if not found or limit.length < found.length then found = limit end
  end
  return found
end

local function buckets_of(limit)
  local windows = ledgers[limit.ledger].windows
  windows[limit.name] = windows[limit.name] or {}
  return windows[limit.name]
end

-- ---- windows: policy/windows.py -----------------------------------------------------------------

local function charged(limit, at, guard)
  local long = stretch(limit)
  if limit.rolling then return {floor(at / long)} end
  local first, last = floor((at - guard) / long), floor((at + guard) / long)
  if first == last then return {first} end
  return {first, last}
end

local function counted(bucket)
  return (bucket.used or 0) - (bucket.moved or 0)
end

local function used(limit, buckets, place)
  if not limit.rolling then
    local bucket = buckets[tostring(place)]
    return bucket and bucket.used or 0
  end
  local oldest, total = oldest_counted(limit, place), 0
  for key, bucket in pairs(buckets) do
    local number = tonumber(key)
    if oldest <= number then total = total + counted(bucket) end
  end
  return total
end

local function window_ends(limit)
  if limit.rolling then return now + limit.length end
  return (floor(now / limit.length) + 1) * limit.length
end

local function room_at(limit, buckets, place, room)
  local long = stretch(limit)
  if not limit.rolling then return (place + 1) * long + budget.guard end
  local over = used(limit, buckets, place) + room - limit.amount
  local oldest = oldest_counted(limit, place)
  local numbers = {}
  for key in pairs(buckets) do numbers[#numbers + 1] = tonumber(key) end
  table.sort(numbers)
  for _, number in ipairs(numbers) do
    if oldest <= number then
      over = over - counted(buckets[tostring(number)])
      if over <= 0 then return (number + 1 + place - oldest) * long end
    end
  end
  return (place + 1) * long
end

local function live_need(buckets, place, share_left)
  local most = 0
  for key, bucket in pairs(buckets) do
    local number = tonumber(key)
    if place - REMEMBERED <= number and number <= place then
      local hot = bucket.hot or 0
      if number == place and share_left <= PRESENT_TELLS then hot = hot / (1 - share_left) end
      most = max(most, hot)
    end
  end
  local expected = most * share_left
  return ceil(expected + SURPRISE * math.sqrt(expected))
end

local function reserve(limit, buckets, place)
  if not budget.decays or limit.rolling or limit.reserve == 0 then return limit.reserve end
  local long = stretch(limit)
  local left = min(long, max(0, (place + 1) * long - now))
  local decayed = floor(limit.reserve * left / long)
  local burst = left > LIVE_WAIT_MS and ceil(limit.amount * BURST_SHARE) or 0
  return min(limit.reserve, max(decayed, burst, live_need(buckets, place, left / long)))
end

local function reserve_frees_at(limit, place, room)
  local long = stretch(limit)
  local shrunk = (place + 1) * long - floor(room * long / limit.reserve)
  return max(shrunk, now + floor(long / ROLLING_PARTS))
end

local function pace(limit, left)
  if limit.rolling then return max(budget.pace_least, ceil(limit.length / limit.amount)) end
  if left <= 0 then return budget.pace_least end
  return max(budget.pace_least, floor((window_ends(limit) - now) / left))
end

-- ---- spending: policy/spending.py ---------------------------------------------------------------

local function forget_old(limit, buckets)
  local place = floor((now - budget.guard) / stretch(limit))
  local oldest = limit.rolling and oldest_counted(limit, place) or place - REMEMBERED
  for key in pairs(buckets) do
    if tonumber(key) < oldest then buckets[key] = nil end
  end
end

local function hour_of(ledger)
  local hour = floor(now / HOUR_MS)
  for key in pairs(ledger.refusals) do
    if tonumber(key) <= hour - 25 then ledger.refusals[key] = nil end
  end
  local key = tostring(hour)
  ledger.refusals[key] = ledger.refusals[key] or {}
  return ledger.refusals[key]
end

local function count_up(counts, name)
  counts[name] = (counts[name] or 0) + 1
end

local function left_of(limit)
  local place = floor(now / stretch(limit))
  return max(0, limit.amount - used(limit, buckets_of(limit), place))
end

local function is_unknown(limit, ledger, place)
  local since = ledger.born or 0
  if limit.raised_by > 0 then return false end
  if limit.rolling then return now < since + limit.length + budget.guard end
  return place * stretch(limit) - budget.guard < since
end

-- policy/headroom.py, `shortages`
local function shortages(ask, times)
  local found = {}
  for _, limit in ipairs(counting(ask.kind)) do
    if limit.raised_by > 0 then
      local buckets = buckets_of(limit)
      for _, place in ipairs(charged(limit, now, budget.guard)) do
        local bucket = buckets[tostring(place)] or {}
        local count = bucket.used or 0
        if count + times > (bucket.headroom or 0) then
          local id = ledgers[limit.ledger].id
          found[#found + 1] = {limit.ledger, id, limit.name, place, count, times}
        end
      end
    end
  end
  return #found > 0 and {short = found, now = now} or nil
end

local function charge(ask)
  for _, limit in ipairs(counting(ask.kind)) do
    local buckets = buckets_of(limit)
    forget_old(limit, buckets)
    for _, place in ipairs(charged(limit, now, budget.guard)) do
      local key = tostring(place)
      buckets[key] = buckets[key] or {}
      count_up(buckets[key], 'used')
      count_up(buckets[key], ask.lane)
      if ask.retry then count_up(buckets[key], 'retries') end
    end
  end
  local limit = budget.paced and shortest(counting(ask.kind))
  if limit and ask.lane == 'cold' then
    local place = floor(now / stretch(limit))
    local left = limit.amount - used(limit, buckets_of(limit), place)
    ledgers[limit.ledger].next_cold = now + pace(limit, left)
  end
end

-- policy/in_flight.py, `from_before`
local function from_before(limit, place)
  if not budget.slots or limit.rolling or limit.ledger ~= budget.slots_ledger then return 0 end
  local found, begin = 0, place * limit.length
  for _, free_at in pairs(ledgers[budget.slots_ledger].slots) do
    if free_at - budget.slot_lease + budget.guard < begin then found = found + 1 end
  end
  return found
end

-- policy/in_flight.py, `count_late`
local function count_late(limits, granted_at, ended_at)
  if ended_at - granted_at <= budget.guard then return end
  for _, limit in ipairs(limits) do
    local own = charged(limit, granted_at, budget.guard)
    local place = floor(ended_at / stretch(limit))
    if place > own[#own] then
      local buckets, key = buckets_of(limit), tostring(place)
      local before = buckets[tostring(own[1])]
      if limit.rolling and before and (before.moved or 0) < (before.used or 0) then
        count_up(before, 'moved')
      end
      buckets[key] = buckets[key] or {}
      count_up(buckets[key], 'used')
    end
  end
end

-- policy/in_flight.py, `end_lost`
local function end_lost()
  local limits = {}
  for _, limit in ipairs(budget.limits) do
    if limit.ledger == budget.slots_ledger then limits[#limits + 1] = limit end
  end
  local slots = ledgers[budget.slots_ledger].slots
  for name, free_at in pairs(slots) do
    if free_at <= now then
      slots[name] = nil
      count_late(limits, free_at - budget.slot_lease, free_at)
    end
  end
end

local function take(ask)
  local worst = nil
  local function obstacle(till, why, ledger, limit)
    if not worst or till > worst.till then
      worst = {till = till, why = why, ledger = ledger, limit = limit}
    end
  end
  for index, ledger in ipairs(ledgers) do
    if (ledger.closed_until or 0) > now then obstacle(ledger.closed_until, 'closed', index) end
  end
  if budget.slots then
    end_lost()
    local slots, held, till = ledgers[budget.slots_ledger].slots, 0, now + SLOT_LOOK_MS
    for _, free_at in pairs(slots) do held, till = held + 1, min(till, free_at) end
    if held >= budget.slots then obstacle(till, 'slots', budget.slots_ledger) end
  end
  local cold = ask.lane == 'cold'
  local paced = budget.paced and shortest(counting(ask.kind))
  if paced and cold and (ledgers[paced.ledger].next_cold or 0) > now then
    obstacle(ledgers[paced.ledger].next_cold, 'pace', paced.ledger, paced.name)
  end
  for _, limit in ipairs(counting(ask.kind)) do
    local ledger, buckets = ledgers[limit.ledger], buckets_of(limit)
    for _, place in ipairs(charged(limit, now, budget.guard)) do
      local room = limit.amount - used(limit, buckets, place) - 1
      local kept = cold and reserve(limit, buckets, place) or 0
      if room < 0 then
        obstacle(room_at(limit, buckets, place, 1 + kept), 'spent', limit.ledger, limit.name)
      else
        if is_unknown(limit, ledger, place) then
          local till = (place + 1) * limit.length + budget.guard
          if limit.rolling then till = (ledger.born or 0) + limit.length + budget.guard end
          obstacle(till, 'unknown', limit.ledger, limit.name)
        end
        if room < kept then
          local till = room_at(limit, buckets, place, 1 + kept)
          if budget.decays and not limit.rolling then
            till = min(till, reserve_frees_at(limit, place, room))
          end
          obstacle(till, 'reserve', limit.ledger, limit.name)
        elseif room - from_before(limit, place) < kept then
          obstacle(now + SLOT_LOOK_MS, 'slots', limit.ledger, limit.name)
        end
      end
    end
  end
  if worst then
    count_up(hour_of(ledgers[worst.ledger]), worst.why)
    return {why = worst.why, till = worst.till, wait = worst.till - now, limit = worst.limit}
  end
  local short = shortages(ask, 1)
  if short then return short end
  charge(ask)
  if budget.slots then
    ledgers[budget.slots_ledger].slots[ask.grant] = now + budget.slot_lease
  end
  local reply = {granted = true, at = now, seen = {}}
  for _, limit in ipairs(counting(ask.kind)) do
    local left, ends = left_of(limit), window_ends(limit)
    if not reply.remaining or left < reply.remaining
        or (left == reply.remaining and ends < reply.resets) then
      reply.remaining, reply.resets = left, ends
    end
    for _, place in ipairs(charged(limit, now, budget.guard)) do
      local bucket = buckets_of(limit)[tostring(place)]
      reply.seen[#reply.seen + 1] = {limit.ledger, limit.name, place, bucket.used}
    end
  end
  return reply
end

local function observe()
  for _, limit in ipairs(budget.limits) do
    local theirs = args.counts[limit.name]
    if theirs then
      local buckets = buckets_of(limit)
      forget_old(limit, buckets)
      local place = charged(limit, limit.rolling and now or args.granted_at, budget.guard)[1]
      local key = tostring(place)
      local bucket = buckets[key] or {}
      buckets[key] = bucket
      bucket.theirs = max(bucket.theirs or 0, theirs)
      bucket.used = (bucket.used or 0) + max(0, theirs - used(limit, buckets, place))
    end
  end
  return {done = true}
end

local function refused()
  local limits, chosen = counting(args.kind), nil
  for _, limit in ipairs(limits) do
    if limit.name == args.limit then chosen = limit end
  end
  if not chosen then
    for _, limit in ipairs(limits) do
      if left_of(limit) <= 0 and (not chosen or limit.length > chosen.length) then
        chosen = limit
      end
    end
  end
  chosen = chosen or shortest(limits)
  local wait
  if args.retry_after then
    wait = min(max(args.retry_after, 1000), CLOSED_MS_MAX)
  elseif not chosen or chosen.rolling then
    wait = CLOSED_ROLLING_MS
  else
    wait = window_ends(chosen) + budget.guard - now
  end
  local index = chosen and chosen.ledger or 1
  local ledger = ledgers[index]
  if not ledger then return {till = now + wait, now = now} end
  ledger.closed_until = max(ledger.closed_until or 0, now + wait)
  count_up(hour_of(ledger), 'by_provider')
  return {till = ledger.closed_until, now = now, ledger = index}
end

local operations = {
  take = function() return take(args) end,
  charge = function()
    local short = shortages(args, args.times)
    if short then return short end
    for _ = 1, args.times do charge(args) end
    return {done = true}
  end,
  release = function()
    if budget.slots then ledgers[budget.slots_ledger].slots[args.grant] = nil end
    count_late(counting(args.kind), args.granted_at, now)
    return {done = true}
  end,
  observe = observe,
  refused = refused,
}

if ARGV[1] == 'read' then return cjson.encode({now = now, ledgers = ledgers}) end
local reply = operations[ARGV[1]]()
keep()
return cjson.encode(reply)
