//go:build !linux

package landlock

import "errors"

// ABI is 0: only Linux has Landlock.
func ABI() int { return 0 }

func (r Rules) enforce() error { return errors.New("it takes Linux") }
