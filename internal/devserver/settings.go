package devserver

import (
	"go.temporal.io/server/common/dynamicconfig"
)

// dynamicSettings are the server's dynamic settings.
//
// Poll rates: the queue processors take at most 20 batches a second from a
// shard, and this server has one shard, so that every activity would wait
// 50 ms. TestActivityCost measures it.
//
// Queues: chat/… queues pace themselves by the queue's rate, which the server
// divides among a queue's partitions, and interleave sessions by fairness key.
// Constraints match a queue's whole name only, no prefix, and chat queues are
// named after teams; so every queue gets one partition and fairness. One
// machine has no use for more.
func dynamicSettings(o Options) dynamicconfig.StaticClient {
	s := dynamicconfig.StaticClient{
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  one(1),
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): one(1),
		dynamicconfig.MatchingEnableFairness.Key():              one(true),
		// Lists in the chat and the tests' polling ask more than ten times a second.
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key(): one(200),
		// The server's own workers (schedules, batch jobs, worker versions) for each
		// namespace are not used by default, and each holds pollers.
		dynamicconfig.WorkerPerNamespaceWorkerCount.Key(): one(0),
	}
	if o.Versions {
		s[dynamicconfig.WorkerPerNamespaceWorkerCount.Key()] = one(1)
	}
	if o.InMemory {
		// Tests continue as new many times a second; a server lets one run last a
		// second before the next.
		s[dynamicconfig.WorkflowIdReuseMinimalInterval.Key()] = one("0s")
	}
	if o.asReleased {
		return s
	}
	s[dynamicconfig.TransferProcessorMaxPollRPS.Key()] = one(2000)
	s[dynamicconfig.TimerProcessorMaxPollRPS.Key()] = one(2000)
	s[dynamicconfig.VisibilityProcessorMaxPollRPS.Key()] = one(200)
	s[dynamicconfig.OutboundProcessorMaxPollRPS.Key()] = one(200)
	return s
}

// one is a setting without constraints.
func one(value any) []dynamicconfig.ConstrainedValue {
	return []dynamicconfig.ConstrainedValue{{Value: value}}
}
