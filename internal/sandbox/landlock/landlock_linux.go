package landlock

import (
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rights, as Landlock has them.
const (
	toList = unix.LANDLOCK_ACCESS_FS_READ_DIR
	toRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | toList
	toUse  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	// toWrite makes no devices: root could reach disks by them.
	toWrite = toRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_REFER |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	denied = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
	// ofFile are those that there are of what is no directory.
	ofFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | toUse | unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// ABI is the version of the kernel's Landlock; 0 where it has none, or has it switched
// off.
func ABI() int {
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// ruleset is a set of rules that holds for nobody yet.
type ruleset struct {
	fd      uintptr
	handled uint64
}

// enforce holds this thread to the rules.
func (r Rules) enforce() error {
	s, err := newRuleset(ABI())
	if err != nil {
		return err
	}
	if err := s.addAll(r); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("giving up privileges to come", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, s.fd, 0, 0); errno != 0 {
		return os.NewSyscallError("putting the rules in force", errno)
	}
	return giveUp()
}

// giveUp gives up all privileges, also those that root would get back as the command:
// with some of them Linux shows other processes' memory, whatever Landlock says.
func giveUp() error {
	for c := uintptr(0); c < 64; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err == unix.EINVAL { // there are no more
			break
		}
		if err == unix.EPERM && unix.Geteuid() != 0 {
			break // no new ones can be had
		}
		if err != nil {
			return os.NewSyscallError("giving up privileges for good", err)
		}
	}
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) // goes with the others where there are some
	head, none := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	return os.NewSyscallError("giving up privileges", unix.Capset(&head, &none[0]))
}

func newRuleset(abi int) (ruleset, error) {
	if abi < LeastABI {
		return ruleset{}, os.NewSyscallError("asking for Landlock (its version is "+strconv.Itoa(abi)+")", unix.EOPNOTSUPP)
	}
	attr := unix.LandlockRulesetAttr{Access_fs: toWrite | denied}
	if abi < TruncateABI {
		attr.Access_fs &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= ScopeABI {
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return ruleset{}, os.NewSyscallError("making rules", errno)
	}
	return ruleset{fd: fd, handled: attr.Access_fs}, nil // closed by the kernel when this becomes the command
}

// addAll adds the rules. A place to read that cannot be opened stays shut.
func (s ruleset) addAll(r Rules) error {
	hidden := resolved(r.Hidden)
	for _, p := range resolved(r.Read) {
		shown(p, hiddenIn(p, hidden), func(path string) { _ = s.add(path, toRead) })
	}
	for _, p := range resolved(r.List) {
		_ = s.add(p, toList)
	}
	for _, p := range resolved(r.Use) {
		_ = s.add(p, toUse)
	}
	for _, p := range resolved(r.Write) {
		if err := s.add(p, toWrite); err != nil {
			return err
		}
	}
	return s.addStreams()
}

// hiddenIn are those of hidden that say something of a place that was named itself:
// what is around it, or is it, does not.
func hiddenIn(path string, hidden []string) []string {
	var all []string
	for _, h := range hidden {
		if below(h, path) {
			all = append(all, h)
		}
	}
	return all
}

// add allows what is at path.
func (s ruleset) add(path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return &os.PathError{Op: "opening", Path: path, Err: err}
	}
	defer unix.Close(fd)
	if err := s.addFile(fd, access); err != nil {
		return &os.PathError{Op: "allowing", Path: path, Err: err}
	}
	return nil
}

func (s ruleset) addFile(fd int, access uint64) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= ofFile
	}
	if access &= s.handled; access == 0 {
		return nil
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, s.fd, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// addStreams lets the command open its streams again, as /dev/stdout is: pipes that
// have names, and a terminal. Pipes without need no rule and take none.
func (s ruleset) addStreams() error {
	for fd := range 3 {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil {
			continue
		}
		if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFIFO && kind != unix.S_IFCHR {
			continue
		}
		if err := s.addFile(fd, toUse); err != nil && err != unix.EBADFD {
			return os.NewSyscallError("allowing the command's streams", err)
		}
	}
	return nil
}
