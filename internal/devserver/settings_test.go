package devserver

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/server/common/dynamicconfig"
)

// A server of deploy/ must treat chat queues as the embedded one does: one
// partition, fairness. The server's own loader must know every key.
func TestDeployedServerTreatsChatQueuesAlike(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/temporal/dynamicconfig.yaml")
	require.NoError(t, err)
	loaded := dynamicconfig.LoadYamlFile(text)
	require.NoError(t, loaded.Err())
	require.Empty(t, loaded.Warnings)
	embedded := dynamicSettings(Options{})
	for _, key := range []dynamicconfig.Key{
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key(),
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(),
		dynamicconfig.MatchingEnableFairness.Key(),
	} {
		var general []dynamicconfig.ConstrainedValue
		for _, v := range loaded.Map[key] {
			if v.Constraints == (dynamicconfig.Constraints{}) {
				general = append(general, v)
			}
		}
		require.Equal(t, embedded[key], general, key)
	}
}
