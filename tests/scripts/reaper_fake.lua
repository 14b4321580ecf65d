-- What the script for REAPER asks of REAPER, with one item of one take: tests/scripts/test_reaper.py fills in PROJECT.
-- 100 quarter notes a minute, bars of three; the item begins in the middle of bar 3 of the project (counted from 0).

local BPM, BAR, PPQ = 100, 3, 960
local function seconds(quarters) return quarters * 60 / BPM end
local takes = { { notes = PROJECT.notes, name = "played" } }
local active, message, settings = 1, nil, { command = PROJECT.command }

reaper = {
  ShowMessageBox = function(text) message = text end,
  CountSelectedMediaItems = function() return PROJECT.items or 1 end,
  GetSelectedMediaItem = function() return "item" end,
  GetActiveTake = function() return takes[active] end,
  TakeIsMIDI = function() return PROJECT.midi ~= false end,
  GetSet_LoopTimeRange = function() return seconds(PROJECT.from), seconds(PROJECT.to) end,
  GetMediaItemInfo_Value = function(_, name)
    return seconds(name == "D_POSITION" and PROJECT.position or PROJECT.length)
  end,
  TimeMap2_timeToBeats = function(_, at)
    local quarters = at * BPM / 60
    return quarters % BAR, math.floor(quarters / BAR + 1e-9), BAR, quarters, 4
  end,
  TimeMap_GetMeasureInfo = function(_, bar) return seconds(bar * BAR), bar * BAR, (bar + 1) * BAR, BAR, 4, BPM end,
  MIDI_CountEvts = function(take) return true, #take.notes, 0, 0 end,
  MIDI_GetNote = function(take, i)
    local note = take.notes[i + 1]
    return true, false, note[6] == 1, note[1], note[2], note[3], note[4], note[5]
  end,
  -- The take's own ticks count from the beginning of the item.
  MIDI_GetProjQNFromPPQPos = function(_, ppq) return PROJECT.position + ppq / PPQ end,
  MIDI_GetPPQPosFromProjQN = function(_, quarters) return (quarters - PROJECT.position) * PPQ end,
  GetOS = function() return "Other" end,
  GetResourcePath = function() return PROJECT.folder end,
  RecursiveCreateDirectory = function(path) os.execute('mkdir -p "' .. path .. '"') end,
  GetExtState = function(_, name) return settings[name] or "" end,
  SetExtState = function(_, name, value) settings[name] = value end,
  GetUserInputs = function() return PROJECT.answer ~= nil, PROJECT.answer or "" end,
  ExecProcess = function(command)
    local process = io.popen(command .. " 2>&1")
    local output = process:read("a")
    local _, _, code = process:close()
    return code .. "\n" .. output
  end,
  Undo_BeginBlock = function() end,
  Undo_EndBlock = function() end,
  UpdateArrange = function() end,
  Main_OnCommand = function(number)
    assert(number == 40639)
    local copy = {}
    for i, note in ipairs(takes[active].notes) do copy[i] = note end
    takes[#takes + 1] = { notes = copy, name = takes[active].name }
    active = #takes
  end,
  MIDI_DeleteNote = function(take, i) table.remove(take.notes, i + 1) end,
  MIDI_InsertNote = function(take, _, _, from, to, channel, pitch, velocity)
    table.insert(take.notes, { from, to, channel, pitch, velocity, 0 })
  end,
  MIDI_Sort = function(take) table.sort(take.notes, function(a, b) return a[1] < b[1] end) end,
  GetSetMediaItemTakeInfo_String = function(take, _, name) take.name = name end,
}
-- What it does not have may not be asked for: REAPER names hundreds of functions, and misses a wrong one silently.
setmetatable(reaper, { __index = function(_, name) error("no such function: " .. name) end })

dofile(SCRIPT)

print("message\t" .. tostring(message):gsub("\n", " "))
for _, take in ipairs(takes) do
  print("take\t" .. take.name)
  for _, note in ipairs(take.notes) do print("note\t" .. table.concat(note, "\t")) end
end
