-- Wireshark and tshark: dissector of ccplane's experimental IPv6 options (docs/ioam.md).
--   tshark -X lua_script:"$(ccp telemetry dissector)" -r capture.pcap -O ccplane

local ccplane = Proto("ccplane", "ccplane's options")

local EXPERIMENT, TCP_STATE, PATH_ECHO = 0x6363, 1, 2
local MISSING, UNLIMITED = 0xffffffff, 0xfffffffe
local TCP_STATE_BYTES, PATH_ECHO_BYTES = { [10] = true, [12] = true }, { [50] = true }

local tcp = {
	traced = ProtoField.bool("ccplane.tcp.traced", "Window was traced"),
	wants_echo = ProtoField.bool("ccplane.tcp.wants_echo", "Source takes echoes"),
	mss = ProtoField.uint16("ccplane.tcp.mss_bytes", "Segment [bytes]"),
	cwnd = ProtoField.uint32("ccplane.tcp.cwnd_bytes", "Congestion window [bytes]"),
	first = ProtoField.uint16("ccplane.tcp.first_sequence", "Super-packet's first sequence number, lower half"),
}
local echo = {
	hops = ProtoField.uint8("ccplane.echo.hops", "Nodes that wrote data"),
	all_known = ProtoField.bool("ccplane.echo.all_known", "All nodes reported their queues"),
	hop = ProtoField.uint8("ccplane.echo.hop", "Bottleneck's position from the sender"),
	unlimited = ProtoField.bool("ccplane.echo.unlimited", "Bottleneck's queue has no limit"),
	sent = ProtoField.absolute_time("ccplane.echo.sent", "Packet left the source", base.UTC),
}
-- Words in wire order, starting with the node's id; the flag marks words that can be missing.
local words = {
	{ "node_id", "Bottleneck's node id", true },
	{ "queue_pkts", "Packets in its queue", true },
	{ "free_pkts", "Room in its queue [packets]", true },
	{ "arrival_pkts_per_s", "Arrivals [packets/s]", true },
	{ "link_rate_bytes_per_s", "Rate of its link [bytes/s]", true },
	{ "flow_count", "Flows that share it", true },
	{ "losses_congestion", "Dropped by queues so far [packets]", false },
	{ "losses_link", "Lost by links so far [packets]", false },
	{ "losses_unknown", "Missing for unknown reasons so far [packets]", false },
}

ccplane.fields = {
	tcp.traced, tcp.wants_echo, tcp.mss, tcp.cwnd, tcp.first,
	echo.hops, echo.all_known, echo.hop, echo.unlimited, echo.sent,
}
for _, word in ipairs(words) do
	word.field = ProtoField.uint32("ccplane.echo." .. word[1], word[2])
	table.insert(ccplane.fields, word.field)
end
local wrong_length = ProtoExpert.new("ccplane.length", "Wrong length", expert.group.MALFORMED, expert.severity.ERROR)
ccplane.experts = { wrong_length }

local function add_tcp_state(tree, data)
	local flags = data(3, 1)
	tree:add(tcp.traced, flags, flags:bitfield(7, 1) == 1)
	tree:add(tcp.wants_echo, flags, flags:bitfield(6, 1) == 1)
	tree:add(tcp.mss, data(4, 2))
	tree:add(tcp.cwnd, data(6, 4))
	if flags:bitfield(5, 1) == 1 and data:len() == 12 then
		tree:add(tcp.first, data(10, 2))
	end
end

local function add_path_echo(tree, data)
	local flags = data(3, 1)
	tree:add(echo.all_known, flags, flags:bitfield(7, 1) == 1)
	tree:add(echo.hops, data(4, 1))
	tree:add(echo.hop, data(5, 1))
	for at, word in ipairs(words) do
		local range = data(2 + 4 * at, 4)
		if word[1] == "free_pkts" and range:uint() == UNLIMITED then
			tree:add(echo.unlimited, range, true)
		elseif word[3] and range:uint() == MISSING then
			tree:add(range, word[2] .. ": missing")
		else
			tree:add(word.field, range)
		end
	end
	local seconds, microseconds = data(42, 4):uint(), data(46, 4):uint()
	tree:add(echo.sent, data(42, 8), NSTime.new(seconds, microseconds * 1000))
end

local kinds = {
	[TCP_STATE] = { "sender's TCP", TCP_STATE_BYTES, add_tcp_state },
	[PATH_ECHO] = { "path echo", PATH_ECHO_BYTES, add_path_echo },
}
local options = Field.new("ipv6.opt.experimental")

function ccplane.dissector(_, _, tree)
	for _, option in ipairs({ options() }) do
		local data = option.range
		local kind = data:len() > 2 and data(0, 2):uint() == EXPERIMENT and kinds[data(2, 1):uint()]
		if kind then
			local branch = tree:add(ccplane, data, "ccplane: " .. kind[1])
			if kind[2][data:len()] then
				kind[3](branch, data)
			else
				branch:add_proto_expert_info(wrong_length)
			end
		end
	end
end

register_postdissector(ccplane)
