// Package archtest holds the rules about which package may import which. It has
// no code: its tests read the module with go list.
package archtest
