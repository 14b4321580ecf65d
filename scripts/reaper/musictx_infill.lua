-- Composes the bars of the time selection anew in the selected MIDI item, by `musictx infill`, into a new take.
--
-- In REAPER: Actions > Show action list > New action > Load ReaScript..., choose this file, run it. Select one MIDI
-- item, and in time the bars that are to be composed anew. The first time it asks for the command (musictx, or the
-- full way to it). What was there stays as the take before; Undo takes the new one away.

local QUARTER = 960 -- ticks of a quarter note in the files that are exchanged
local SECONDS = 600 -- that composing may take
local SECTION = "musictx" -- of REAPER's settings

local function fail(text)
  reaper.ShowMessageBox(text, "musictx", 0)
end

-- ------------------------------------------------------------------------------------------------ MIDI files

local function varying(number)
  local bytes = string.char(number & 127)
  number = number >> 7
  while number > 0 do
    bytes = string.char((number & 127) | 128) .. bytes
    number = number >> 7
  end
  return bytes
end

-- Events are {tick, rank, bytes}; of those at one tick the lower rank comes first.
local function track(events)
  table.sort(events, function(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    return a[2] < b[2]
  end)
  local parts, now = {}, 0
  for _, event in ipairs(events) do
    parts[#parts + 1] = varying(event[1] - now) .. event[3]
    now = event[1]
  end
  local body = table.concat(parts) .. "\0\255\47\0"
  return "MTrk" .. string.pack(">I4", #body) .. body
end

-- A file of one track. notes: {start, stop, channel, pitch, velocity} in ticks; bars: {tick, above, below, bpm}.
local function written(notes, bars)
  local events = {}
  local function add(tick, rank, bytes)
    events[#events + 1] = { tick, rank, bytes }
  end
  local before
  for _, bar in ipairs(bars) do
    local meter, tempo = bar.above .. "/" .. bar.below, math.floor(6e7 / bar.bpm + 0.5)
    if not before or before.meter ~= meter then
      local power = math.floor(math.log(bar.below, 2) + 0.5)
      add(bar.tick, 0, "\255\88\4" .. string.char(bar.above, power, 24, 8))
    end
    if not before or before.tempo ~= tempo then
      add(bar.tick, 0, "\255\81\3" .. string.pack(">I3", tempo))
    end
    before = { meter = meter, tempo = tempo }
  end
  for _, note in ipairs(notes) do
    add(note.start, 2, string.char(0x90 | note.channel, note.pitch, note.velocity))
    add(math.max(note.stop, note.start + 1), 1, string.char(0x80 | note.channel, note.pitch, 0))
  end
  return "MThd" .. string.pack(">I4I2I2I2", 6, 0, 1, QUARTER) .. track(events)
end

-- The notes of a file, in quarter notes: {start, stop, channel, pitch, velocity}; nil for what is no MIDI file.
local function read(data)
  if data:sub(1, 4) ~= "MThd" then return nil end
  local quarter = string.unpack(">I2", data, 13)
  local notes, place = {}, 15
  while place + 8 <= #data + 1 and data:sub(place, place + 3) == "MTrk" do
    local size = string.unpack(">I4", data, place + 4)
    local at, stop = place + 8, place + 8 + size
    local tick, status, open = 0, 0, {}
    local function number()
      local value = 0
      repeat
        local byte = data:byte(at)
        at = at + 1
        value = (value << 7) | (byte & 127)
      until byte < 128
      return value
    end
    while at < stop do
      tick = tick + number()
      if data:byte(at) >= 128 then
        status = data:byte(at)
        at = at + 1
      end
      local kind, channel = status & 0xF0, status & 15
      if status == 255 then
        at = at + 1
        local length = number()
        at = at + length
      elseif kind == 0xF0 then
        local length = number()
        at = at + length
      else
        local pitch, velocity = data:byte(at), data:byte(at + 1)
        at = at + ((kind == 0xC0 or kind == 0xD0) and 1 or 2)
        local key = channel * 128 + pitch
        if kind == 0x90 and velocity > 0 then
          local note = { start = tick / quarter, channel = channel, pitch = pitch, velocity = velocity }
          open[key] = open[key] or {}
          table.insert(open[key], note)
          notes[#notes + 1] = note
        elseif kind == 0x80 or kind == 0x90 then
          local note = open[key] and table.remove(open[key], 1)
          if note then note.stop = tick / quarter end
        end
      end
    end
    for _, waiting in pairs(open) do
      for _, note in ipairs(waiting) do note.stop = tick / quarter end
    end
    place = stop
  end
  return notes
end

-- ---------------------------------------------------------------------------------------------------- REAPER

-- The bar, counted from 0, that a moment of the project is in.
local function bar_of(seconds)
  local _, bar = reaper.TimeMap2_timeToBeats(0, seconds)
  return bar
end

-- Where a bar begins, in quarter notes of the project, and its meter and tempo.
local function bar_line(bar)
  local _, begin, _, above, below, bpm = reaper.TimeMap_GetMeasureInfo(0, bar)
  return begin, above, below, bpm
end

local function notes_of(take, begin)
  local notes = {}
  local _, count = reaper.MIDI_CountEvts(take)
  for i = 0, count - 1 do
    local _, _, muted, from, to, channel, pitch, velocity = reaper.MIDI_GetNote(take, i)
    if not muted then
      local function tick(ppq)
        return math.max(0, math.floor((reaper.MIDI_GetProjQNFromPPQPos(take, ppq) - begin) * QUARTER + 0.5))
      end
      notes[#notes + 1] = { start = tick(from), stop = tick(to), channel = channel, pitch = pitch, velocity = velocity }
    end
  end
  return notes
end

local function quoted(text)
  if reaper.GetOS():match("^Win") then return '"' .. text .. '"' end
  return "'" .. text:gsub("'", "'\\''") .. "'"
end

-- The command that was given before, or that is asked for.
local function command()
  local known = reaper.GetExtState(SECTION, "command")
  if known ~= "" then return known end
  local given, text = reaper.GetUserInputs("musictx", 1, "Command (musictx or the way to it),extrawidth=200", "musictx")
  if not given or text == "" then return nil end
  reaper.SetExtState(SECTION, "command", text, true)
  return text
end

local function main()
  local item = reaper.CountSelectedMediaItems(0) == 1 and reaper.GetSelectedMediaItem(0, 0)
  local take = item and reaper.GetActiveTake(item)
  if not take or not reaper.TakeIsMIDI(take) then return fail("Select one MIDI item.") end
  local from, to = reaper.GetSet_LoopTimeRange(false, false, 0, 0, false)
  local start = reaper.GetMediaItemInfo_Value(item, "D_POSITION")
  local stop = start + reaper.GetMediaItemInfo_Value(item, "D_LENGTH")
  if to <= from or from >= stop or to <= start then
    return fail("Select in time the bars of this item that are to be composed anew.")
  end
  local program = command()
  if not program then return end

  local first, last = bar_of(start), bar_of(math.max(start, stop - 1e-6))
  local begin = bar_line(first)
  local bars = {}
  for bar = first, last do
    local line, above, below, bpm = bar_line(bar)
    bars[#bars + 1] = { tick = math.floor((line - begin) * QUARTER + 0.5), above = above, below = below, bpm = bpm }
  end
  local low = bar_of(math.max(from, start) + 1e-6) - first + 1
  local high = bar_of(math.min(to, stop) - 1e-6) - first + 1

  local here = reaper.GetResourcePath() .. "/musictx"
  reaper.RecursiveCreateDirectory(here, 0)
  local given, made = here .. "/given.mid", here .. "/made.mid"
  os.remove(made)
  local file = io.open(given, "wb")
  if not file then return fail("This file cannot be written: " .. given) end
  file:write(written(notes_of(take, begin), bars))
  file:close()
  local words = { quoted(program), "infill", quoted(given), "from=" .. low, "to=" .. high, quoted("out=" .. made) }
  local said = reaper.ExecProcess(table.concat(words, " "), SECONDS * 1000)
  file = io.open(made, "rb")
  local notes = file and read(file:read("a"))
  if file then file:close() end
  if not notes then
    return fail("musictx has composed nothing.\n\n" .. tostring(said or "It did not answer; is the command right?"))
  end

  reaper.Undo_BeginBlock()
  reaper.Main_OnCommand(40639, 0) -- Take: Duplicate active take
  local new = reaper.GetActiveTake(item)
  local _, count = reaper.MIDI_CountEvts(new)
  for i = count - 1, 0, -1 do
    local _, _, muted = reaper.MIDI_GetNote(new, i)
    if not muted then reaper.MIDI_DeleteNote(new, i) end
  end
  for _, note in ipairs(notes) do
    local function ppq(quarters) return reaper.MIDI_GetPPQPosFromProjQN(new, begin + quarters) end
    reaper.MIDI_InsertNote(new, false, false, ppq(note.start), ppq(note.stop), note.channel, note.pitch, note.velocity, true)
  end
  reaper.MIDI_Sort(new)
  reaper.GetSetMediaItemTakeInfo_String(new, "P_NAME", "musictx, bars " .. low .. " to " .. high, true)
  reaper.Undo_EndBlock("Compose bars anew (musictx)", -1)
  reaper.UpdateArrange()
end

main()
