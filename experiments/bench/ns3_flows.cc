// Flows through one bottleneck in ns-3, set up as Linux is: what ccp bench sim --peer ns3 measures.
//
// ns3_run.py has it compiled against the headers of the wheel. Hosts hang on the bottleneck's routers by links
// that take no time worth mentioning.

#include <ctime>
#include <string>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

namespace ccplane
{

constexpr uint32_t kMssBytes = 1448; // with timestamps and headers 1500
constexpr double kPppBytes = 2; // ns-3's point-to-point links add them to each packet
constexpr double kPacketBytes = 1500;

struct Flow {
	std::string algorithm;
	double start_s;
	uint64_t retrans_pkts = 0;
	uint64_t received_bytes = 0;
	double rtt_us = 0; // the latest; 0 before the first
	std::vector<double> rtts_us;
};

struct Run {
	double rate_bytes_per_s;
	double delay_us; // one way
	uint32_t buffer_pkts;
	uint32_t mark_pkts; // from so many waiting packets on arrivals are marked; 0: never
	double duration_s;
	double sample_s;
	uint32_t seed;
	std::vector<Flow> flows;
	double cpu_s = 0;
};

inline void OnRtt(Flow *flow, ns3::Time, ns3::Time now)
{
	flow->rtt_us = now.GetNanoSeconds() / 1e3;
}

inline void OnRetransmission(Flow *flow, ns3::Ptr<const ns3::Packet>, const ns3::TcpHeader &,
			     const ns3::Address &, const ns3::Address &, ns3::Ptr<const ns3::TcpSocketBase>)
{
	flow->retrans_pkts++;
}

inline void OnReceived(Flow *flow, ns3::Ptr<const ns3::Packet> packet, const ns3::Address &)
{
	flow->received_bytes += packet->GetSize();
}

// A socket is made when its application starts, and can be listened to from then on.
inline void Listen(Flow *flow, ns3::Ptr<ns3::BulkSendApplication> application)
{
	auto socket = application->GetSocket();
	socket->TraceConnectWithoutContext("LastRTT", ns3::MakeBoundCallback(&OnRtt, flow));
	socket->TraceConnectWithoutContext("Retransmission", ns3::MakeBoundCallback(&OnRetransmission, flow));
}

inline void Sample(Run *run)
{
	for (auto &flow : run->flows) {
		if (flow.rtt_us > 0)
			flow.rtts_us.push_back(flow.rtt_us);
	}
	ns3::Simulator::Schedule(ns3::Seconds(run->sample_s), &Sample, run);
}

// All of them each time: a process has many runs.
inline void SetDefaults(bool marks)
{
	using namespace ns3;
	Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue(marks ? "On" : "Off"));
	Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(kMssBytes));
	Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
	Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(4 << 20));
	Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(16 << 20));
	Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
	Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
	Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
	Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TcpPrrRecovery::GetTypeId()));
}

// Step marking: RED with one threshold over the queue as it is.
inline void MarkAt(ns3::NetDeviceContainer devices, Run *run)
{
	using namespace ns3;
	TrafficControlHelper control;
	control.SetRootQueueDisc("ns3::RedQueueDisc", "MinTh", DoubleValue(run->mark_pkts), "MaxTh",
				 DoubleValue(run->mark_pkts), "QW", DoubleValue(1), "UseEcn",
				 BooleanValue(true), "UseHardDrop", BooleanValue(false), "Gentle",
				 BooleanValue(false), "MeanPktSize", UintegerValue(1500), "MaxSize",
				 QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, run->buffer_pkts)));
	control.Install(devices);
}

inline void RunFlows(Run *run)
{
	using namespace ns3;
	RngSeedManager::SetSeed(1);
	RngSeedManager::SetRun(run->seed);
	SetDefaults(run->mark_pkts > 0);

	NodeContainer routers(2);
	InternetStackHelper internet;
	internet.Install(routers);
	PointToPointHelper bottleneck, access;
	auto rate_bits_per_s =
		uint64_t(8 * run->rate_bytes_per_s * (kPacketBytes + kPppBytes) / kPacketBytes);
	uint32_t device_pkts = run->mark_pkts ? 1 : run->buffer_pkts;
	bottleneck.SetDeviceAttribute("DataRate", DataRateValue(DataRate(rate_bits_per_s)));
	bottleneck.SetChannelAttribute("Delay", TimeValue(NanoSeconds(int64_t(run->delay_us * 1e3))));
	bottleneck.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize",
			    QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, device_pkts)));
	access.SetDeviceAttribute("DataRate", DataRateValue(DataRate(uint64_t(100e9))));
	access.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize",
			QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, 100000)));

	Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
	TrafficControlHelper none;
	auto connect = [&](const NetDeviceContainer &devices, bool queueing) {
		auto given = addresses.Assign(devices);
		if (!queueing)
			none.Uninstall(devices); // ns-3 puts FqCoDel there
		addresses.NewNetwork();
		return given;
	};
	auto middle = bottleneck.Install(routers);
	if (run->mark_pkts)
		MarkAt(middle, run);
	connect(middle, run->mark_pkts > 0);

	uint16_t port = 5000;
	for (auto &flow : run->flows) {
		NodeContainer hosts(2);
		// Each flow's own congestion control: a stack takes what is the default when it is installed.
		Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue(flow.algorithm));
		internet.Install(hosts);
		connect(access.Install(hosts.Get(0), routers.Get(0)), false);
		auto there = connect(access.Install(routers.Get(1), hosts.Get(1)), false);
		InetSocketAddress address(there.GetAddress(1), port);

		PacketSinkHelper sink("ns3::TcpSocketFactory", address);
		auto receiver = sink.Install(hosts.Get(1));
		receiver.Get(0)->TraceConnectWithoutContext("Rx", MakeBoundCallback(&OnReceived, &flow));
		BulkSendHelper bulk("ns3::TcpSocketFactory", address);
		bulk.SetAttribute("MaxBytes", UintegerValue(0));
		bulk.SetAttribute("SendSize", UintegerValue(128 * 1024));
		auto sender = bulk.Install(hosts.Get(0)).Get(0);
		sender->SetStartTime(Seconds(flow.start_s));
		Simulator::Schedule(Seconds(flow.start_s) + NanoSeconds(1), &Listen, &flow,
				    DynamicCast<BulkSendApplication>(sender));
		port++;
	}
	Ipv4GlobalRoutingHelper::PopulateRoutingTables();
	Simulator::Schedule(Seconds(run->sample_s), &Sample, run);
	Simulator::Stop(Seconds(run->duration_s));
	std::clock_t begin = std::clock();
	Simulator::Run();
	run->cpu_s = double(std::clock() - begin) / CLOCKS_PER_SEC;
	Simulator::Destroy();
}

} // namespace ccplane
