package manifest

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// Host is one entry of a manifest's network.
type Host struct {
	// Name is a host name in lower case, or an IP address.
	Name string
	// Below says that the entry is *.Name: every name below it, not Name itself.
	Below bool
	// Port is the only port; 0 is 80 and 443.
	Port int
}

var hostForm = regexp.MustCompile(`^(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$`)

// ParseHost reads HOST, *.DOMAIN or either with :PORT; an IPv6 address stands in
// brackets. Addresses that serve a cloud machine's own credentials are refused.
func ParseHost(text string) (Host, error) {
	bad := func() (Host, error) {
		return Host{}, fmt.Errorf("%q is not HOST, *.DOMAIN or either with :PORT", text)
	}
	name, port := text, ""
	switch {
	case strings.HasPrefix(text, "["):
		inner, rest, ok := strings.Cut(text[1:], "]")
		if !ok || rest != "" && !strings.HasPrefix(rest, ":") {
			return bad()
		}
		name, port = inner, strings.TrimPrefix(rest, ":")
		if a, err := netip.ParseAddr(name); err != nil || !a.Is6() || rest == ":" {
			return bad()
		}
	case strings.Count(text, ":") == 1:
		name, port, _ = strings.Cut(text, ":")
		if port == "" {
			return bad()
		}
	}
	h := Host{Name: strings.ToLower(strings.TrimSuffix(name, "."))}
	if port != "" {
		n, err := strconv.Atoi(port)
		if err != nil || n < 1 || n > 65535 || port[0] == '+' {
			return bad()
		}
		h.Port = n
	}
	if addr, err := netip.ParseAddr(h.Name); err == nil {
		if Metadata(addr) || addr.Zone() != "" {
			return Host{}, fmt.Errorf("%q may not be reached from a sandbox", text)
		}
		h.Name = addr.Unmap().String()
		return h, nil
	}
	if below, ok := strings.CutPrefix(h.Name, "*."); ok {
		h.Name, h.Below = below, true
	}
	if !hostForm.MatchString(h.Name) || len(h.Name) > 253 || h.Below && !strings.Contains(h.Name, ".") || numeric(h.Name) {
		return bad()
	}
	return h, nil
}

// numeric tells whether resolvers may take a name for an address in an old form,
// such as 0x7f.1 or 2130706433.
func numeric(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	_, err := strconv.ParseUint(last, 0, 64)
	_, dec := strconv.ParseUint(last, 10, 64)
	return err == nil || dec == nil
}

// Allows tells whether the entry covers a host, in lower case and without a
// final dot, and a port.
func (h Host) Allows(name string, port int) bool {
	if h.Port != 0 && port != h.Port || h.Port == 0 && port != 80 && port != 443 {
		return false
	}
	if h.Below {
		return strings.HasSuffix(name, "."+h.Name)
	}
	return name == h.Name
}

// metadata is where clouds serve a machine's own credentials: link-local
// addresses (AWS, Google, Azure, Oracle and others), Alibaba Cloud's, Azure's
// wire server, AWS's by IPv6, Oracle's older one.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("100.100.100.200/32"),
	netip.MustParsePrefix("168.63.129.16/32"), netip.MustParsePrefix("fd00:ec2::/32"), netip.MustParsePrefix("192.0.0.192/32"),
}

// Metadata tells whether an address may serve a cloud machine's own credentials.
func Metadata(a netip.Addr) bool {
	a = a.Unmap()
	for _, p := range metadata {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
