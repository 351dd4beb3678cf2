import java.util.Objects;
import org.apache.hudi.common.config.TypedProperties;
import org.apache.hudi.common.engine.RecordContext;
import org.apache.hudi.common.model.HoodieRecord.HoodieRecordType;
import org.apache.hudi.common.model.HoodieRecordMerger;
import org.apache.hudi.common.table.read.BufferedRecord;

/** Keeps the version with the higher score, the later of two equal ones; a delete counts as of its write. */
public class HighestScoreMerger implements HoodieRecordMerger {
  public static final String STRATEGY = "6d3f0c1e-52a4-4f0b-9a55-0e6b2f7a1c11";

  @Override
  public <T> BufferedRecord<T> merge(
      BufferedRecord<T> older, BufferedRecord<T> newer, RecordContext<T> context, TypedProperties properties) {
    if (older.isDelete() || newer.isDelete()) {
      return newer;
    }
    return score(newer, context) >= score(older, context) ? newer : older;
  }

  private static <T> int score(BufferedRecord<T> version, RecordContext<T> context) {
    Object found = context.getValue(version.getRecord(), context.getSchemaFromBufferRecord(version), "score");
    return Integer.parseInt(Objects.toString(found));
  }

  @Override
  public HoodieRecordType getRecordType() {
    return HoodieRecordType.SPARK;
  }

  @Override
  public String getMergingStrategy() {
    return STRATEGY;
  }
}
