// Package e2e holds tests that drive the built executables from outside, as a
// person or a script does: processes, signals and the web chat's API. It imports
// nothing of the project, so what it holds true is what others can rely on.
//
// The tests build cmd/dev, cmd/worker and cmd/bot once. Set COUNTERSIGN_E2E_BIN
// to a directory that has them (dev, worker, bot) to test those instead.
package e2e
