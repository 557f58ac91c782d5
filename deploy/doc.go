// Package deploy has no code: its tests check the container files beside it.
package deploy
