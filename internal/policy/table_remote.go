package policy

// remoteTable holds programs that act outside the machine, or on all of it.
const remoteTable = `
curl | raw curl | v* |
wget aria2c axel http https xh httpie curlie lynx w3m links elinks | raw wget | v* |
nc ncat netcat socat telnet nc.openbsd nc.traditional cryptcat | raw nc | v* |
scp sftp rsync ftp lftp tftp rclone croc magic-wormhole wormhole unison | raw copyout | v* |
mail mailx sendmail mutt msmtp swaks telegram-send slack notify-send wall write | raw message | v* |
gpg gpg2 age pass op bw vault security secret-tool keyring aws-vault chamber doppler | raw keys | v* |
kubectl oc k3s k9s helm helmfile kustomize argocd flux istioctl velero terraform tofu terragrunt pulumi cdk cdktf sam
	serverless sls aws gcloud gsutil bq az doctl linode-cli hcloud oci ibmcloud heroku fly flyctl vercel netlify railway
	firebase supabase wrangler eksctl kops ansible ansible-playbook ansible-galaxy salt chef-client puppet packer
	vagrant virsh qm pct incus lxc multipass consul nomad boundary waypoint gh glab hub bitbucket jira linear sentry-cli
	datadog-ci stripe twilio temporal tctl tfctl rabbitmqctl kafka-topics kafka-topics.sh nats etcdctl influx pscale
	turso neonctl atlas s3cmd mc minio-client b2 restic borg duplicity step cfssl certbot acme.sh | raw remote | v* |
psql mysql mariadb mysqldump pg_dump pg_restore pg_dumpall mysqladmin createdb dropdb createuser dropuser redis-cli
	valkey-cli mongosh mongo mongodump mongorestore cqlsh clickhouse-client clickhouse sqlcmd usql cockroach mssql-cli
	neo4j cypher-shell influx-cli psql-cli | raw database | v* |
docker podman nerdctl docker-compose podman-compose buildah skopeo ctr crictl finch lima limactl colima runc crun | raw
	docker | v* |
apt apt-cache apt-get aptitude dpkg yum dnf zypper pacman apk-add emerge xbps-install brew port snap flatpak pkg pkg_add
	nix-env nix-channel guix choco winget scoop rpm-install swupd tdnf microdnf opkg | raw system | v* |
pip pip3 pipx easy_install gem bundle bundler uvx conda-install cpan cpanm luarocks opam-install nuget vcpkg conan ghcup
	rustup sdk nvm-install pod carthage fastlane twine flit | raw packages | v* |
shutdown reboot halt poweroff init telinit kexec | critical-host | v* |
systemctl service rc-service rc-update launchctl initctl sv runsvdir supervisorctl loginctl machinectl update-rc.d
	chkconfig pm2 | raw services | v* |
mkfs mke2fs mkfs.ext2 mkfs.ext3 mkfs.ext4 mkfs.xfs mkfs.btrfs mkfs.vfat mkfs.fat mkfs.ntfs mkfs.f2fs mkfs.minix mkswap
	wipefs fdisk sfdisk cfdisk gdisk sgdisk parted blkdiscard hdparm nvme sg_format badblocks cryptsetup mdadm lvremove
	vgremove pvremove lvcreate vgcreate pvcreate lvresize zpool zfs btrfs tune2fs resize2fs e2fsck fsck fsck.ext4
	xfs_repair dmsetup losetup swapoff swapon partprobe ddrescue dcfldd flashrom efibootmgr grub-install dd_rescue
	diskutil bcfg debugfs xfs_db partclone smartctl | raw disks | v* |
mount umount fusermount fusermount3 mount.nfs sshfs insmod modprobe rmmod depmod sysctl setenforce iptables ip6tables
	nft ufw firewall-cmd pfctl ebtables tc apparmor_parser aa-disable auditctl setcap swaplabel | raw kernel | v* |
useradd userdel usermod adduser deluser groupadd groupdel groupmod passwd chpasswd chage visudo vipw gpasswd newgrp chsh
	chfn addgroup delgroup sudoedit pwconv grpconv newusers | raw accounts | v* |
pkill killall killall5 skill snice slay xkill fuser renice | raw killers | v* |
timedatectl hwclock hostnamectl update-alternatives ldconfig update-initramfs update-grub locale-gen dpkg-reconfigure
	ntpdate tzselect | raw hostset | v* |
xdg-open open sensible-browser x-www-browser xmessage zenity osascript-run say xclip xsel pbcopy pbpaste wl-copy |
	risky-run | v* |
xmrig minerd ethminer cpuminer nbminer t-rex | miner | v* |
nmap masscan zmap hydra john hashcat sqlmap nikto gobuster ffuf msfconsole msfvenom aircrack-ng ettercap tcpdump tshark
	wireshark bettercap responder arpspoof | scanner | v* |
ssh-keygen ssh-add ssh-agent ssh-copy-id ssh-keyscan | raw sshkeys | v* |
git | raw git | v* |
`
