package config

// ForgetFile makes settings equal that came from a file and from elsewhere.
func (c *Config) ForgetFile() { c.file = "" }
