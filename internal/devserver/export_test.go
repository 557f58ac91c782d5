package devserver

// AsReleased leaves the server's own poll rates, to compare with.
func AsReleased(o Options) Options {
	o.asReleased = true
	return o
}
