// Package chaos kills the parts of a small installation at random while
// scripted people use it, and afterwards checks that nothing was lost and nothing
// happened twice.
//
//	site      the parts, each a process of its own: server, bot, two workers
//	script    people who chat, approve, deny, stop, fork, pause and destroy
//	faults    SIGKILL at random moments
//	recorder  what happened at every edge: sent and answered, posted, run
//	evidence  what the system says of itself afterwards: state, audit, sandboxes
//	checker   the rules, over recordings and evidence alone
//
// The two workers have a data directory each, as two hosts have, and share the
// blob store. Script and faults come from one seed; when things happen does not.
package chaos
