// Package policy is the gate: it judges what a tool call would do before it
// runs, and says who may approve it.
//
// Everything here is a pure function of its arguments. What only a sandbox can
// know (where a symbolic link leads, what a glob expands to, what a script
// holds) is passed in as [Facts]; what is absent is judged as unknown. Nothing
// is looked up on the machine the code runs on, so a verdict can be recorded,
// replayed and compared.
//
// A command is parsed in the language of the shell that will run it and every
// node is judged; the verdict is the highest [Tier] found, with a reason for
// each segment (simple command) in words. Options are allowed by name, never
// denied by name, so an unknown command, option or construct asks. The gate is
// not the boundary: a sandbox must hold when a verdict is wrong.
package policy
